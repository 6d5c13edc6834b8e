/**
 * Asks the server. No cookies, and no prompt of the browser: the page itself asks who you are.
 */

import { Topic } from "./frame.js";

const BASE = new URL("api/v1/", document.baseURI.split("#")[0]);
const PAGE = 1000;

/** An answer that is an error: the server says which, by a stable code. */
export class Problem extends Error {
  constructor(status, body, retryAfter) {
    super(body.detail || body.title || `The server answered ${status}.`);
    this.status = status;
    this.code = String(body.type || "").replace("urn:bussrv:problem:", "");
    this.retryAfter = retryAfter;
  }
}

/** The server did not answer at all. */
export class Unreachable extends Error {}

export class Api {
  /** @param {Credentials} credentials */
  constructor(credentials) {
    this.credentials = credentials;
    /** The server wants to know who asks. */
    this.denied = new Topic();
  }

  /** The JSON of an answer; `null` if it is the same as that with the given ETag. */
  async get(path, { parameters = {}, signal, etag } = {}) {
    const answer = await this.ask("GET", path, { parameters, signal, headers: etag ? { "If-None-Match": etag } : {} });
    if (answer.status === 304) {
      return null;
    }
    const body = await answer.json();
    Object.defineProperty(body, "etag", { value: answer.headers.get("ETag") });
    return body;
  }

  /** Every item of a collection, page by page, as far as `most`. @returns the items, and how many there are in all. */
  async all(path, { parameters = {}, most = 20000, signal, onPage } = {}) {
    const items = [];
    let total = 0;
    let after;
    do {
      const page = await this.get(path, { parameters: { limit: PAGE, ...parameters, after }, signal });
      items.push(...page.items);
      total = page.total;
      onPage?.(page);
      after = page.next;
    } while (after && items.length < most);
    return { items, total };
  }

  /** What `/readyz` says: whether the server is ready, and each of its checks. */
  async ready() {
    const proof = this.credentials.header;
    const headers = proof ? { Authorization: proof } : {};
    const answer = await fetched(new URL("../../readyz", BASE), { headers, credentials: "omit", cache: "no-store" });
    if (!answer.ok && answer.status !== 503) {
      throw new Problem(answer.status, {}, null);
    }
    return { ready: answer.ok, body: await answer.json() };
  }

  /** Change something. Every change is JSON, so that no other site's form can make one. */
  async change(method, path, body = {}) {
    const headers = { "Content-Type": "application/json" };
    const answer = await this.ask(method, path, { headers, body: JSON.stringify(body) });
    return answer.status === 204 ? null : answer.json().catch(() => null);
  }

  /**
   * One request.
   *
   * @throws {Problem} if the answer is an error.
   * @throws {Unreachable} if there is none.
   */
  async ask(method, path, { parameters = {}, headers = {}, body, signal, authorization } = {}) {
    const url = new URL(path, BASE);
    for (const [name, value] of Object.entries(parameters)) {
      if (value !== undefined && value !== null && value !== "") {
        url.searchParams.set(name, value);
      }
    }
    const proof = authorization ?? this.credentials.header;
    const all = { ...headers, ...(proof ? { Authorization: proof } : {}) };
    const options = { method, headers: all, body, signal, credentials: "omit", cache: "no-store", redirect: "error" };
    const answer = await fetched(url, options);
    if (answer.ok || answer.status === 304) {
      return answer;
    }
    const problem = new Problem(answer.status, await answer.json().catch(() => ({})), retryAfter(answer));
    if (problem.status === 401 && authorization === undefined) {
      this.denied.tell(problem);
    }
    throw problem;
  }
}

async function fetched(url, options) {
  try {
    return await fetch(url, options);
  } catch (error) {
    if (error.name === "AbortError") {
      throw error;
    }
    throw new Unreachable("The server does not answer.");
  }
}

function retryAfter(answer) {
  const seconds = Number(answer.headers.get("Retry-After"));
  return Number.isFinite(seconds) && seconds > 0 ? seconds : null;
}
