/**
 * Asks the server. No cookies, and no prompt of the browser: the page itself asks who you are.
 */

import { Topic } from "./frame.js";

const BASE = new URL("api/v1/", document.baseURI.split("#")[0]);
const PAGE = 1000;
/** Milliseconds until an answer has to be there. */
const PATIENCE = 30000;

/** An answer that is an error: the server says which, by a stable code. */
export class Problem extends Error {
  constructor(status, body, retryAfter) {
    super(body.detail || body.title || `The server answered ${status}.`);
    this.status = status;
    this.code = String(body.type || "").replace("urn:bussrv:problem:", "");
    this.body = body;
    this.retryAfter = retryAfter;
  }
}

/** The server did not answer at all. */
export class Unreachable extends Error {}

export class Api {
  /** Kept when the request is answered that everything else waits for, or `null`. */
  #first = null;
  /** Whether the server has answered with these credentials. */
  #known = false;
  /** Why it does not, or `null`. */
  #refusal = null;

  /** @param {Credentials} credentials */
  constructor(credentials) {
    this.credentials = credentials;
    /** The server wants to know who asks. */
    this.denied = new Topic();
    credentials.changed.listen(() => {
      this.#known = false;
      this.#refusal = null;
    });
  }

  /** The JSON of an answer; `null` if it is the same as that with the given ETag. */
  async get(path, { parameters = {}, etag } = {}) {
    const signal = AbortSignal.timeout(PATIENCE);
    const answer = await this.ask("GET", path, { parameters, signal, headers: etag ? { "If-None-Match": etag } : {} });
    if (answer.status === 304) {
      return null;
    }
    const body = await answer.json();
    Object.defineProperty(body, "etag", { value: answer.headers.get("ETag") });
    return body;
  }

  /** Every item of a collection, page by page, as far as `most`. @returns the items, and how many there are in all. */
  async all(path, { parameters = {}, most = 20000, onPage } = {}) {
    const items = [];
    let total = 0;
    let after;
    do {
      const page = await this.get(path, { parameters: { limit: PAGE, ...parameters, after } });
      items.push(...page.items);
      total = page.total;
      onPage?.(page);
      after = page.next;
    } while (after && items.length < most);
    return { items, total };
  }

  /** What `/readyz` says: whether the server is ready, and each of its checks. */
  async ready() {
    try {
      const answer = await this.ask("GET", "../../readyz", { signal: AbortSignal.timeout(PATIENCE) });
      return { ready: true, body: await answer.json() };
    } catch (problem) {
      if (problem.status === 503 && problem.body.checks) {
        return { ready: false, body: problem.body };
      }
      throw problem;
    }
  }

  /** Change something. Every change is JSON, so that no other site's form can make one. */
  async change(method, path, body = {}) {
    const headers = { "Content-Type": "application/json" };
    const answer = await this.ask(method, path, { headers, body: JSON.stringify(body) });
    return answer.status === 204 ? null : answer.json().catch(() => null);
  }

  /**
   * One request. Wrong credentials are tried once and not by every part of the page: the server counts failed logins.
   *
   * @throws {Problem} if the answer is an error.
   * @throws {Unreachable} if there is none.
   */
  async ask(method, path, options = {}) {
    while (this.#first) {
      await this.#first;
    }
    if (this.#refusal) {
      throw this.#refusal;
    }
    if (this.#known) {
      return this.#send(method, path, options);
    }
    let done;
    this.#first = new Promise((resolve) => {
      done = resolve;
    });
    try {
      return await this.#send(method, path, options);
    } finally {
      this.#first = null;
      done();
    }
  }

  /** Whether the server accepts these credentials: if not, this throws the problem. */
  try(authorization) {
    return this.#request("GET", "server", { authorization });
  }

  async #send(method, path, options) {
    const { header } = this.credentials;
    try {
      const answer = await this.#request(method, path, { ...options, authorization: header });
      this.#known ||= header === this.credentials.header;
      return answer;
    } catch (problem) {
      if (header === this.credentials.header && problem.status) {
        this.#known = true;
        this.#refuse(problem, method, path);
      }
      throw problem;
    }
  }

  /** Who may look may still be asked for more: to change something, or to tap. */
  #refuse(problem, method, path) {
    const isForMore = method !== "GET" || path === "tap";
    if (problem.status === 401 && (problem.code === "bad-credentials" || !isForMore)) {
      this.#known = false;
      this.#refusal = problem;
      this.denied.tell(problem);
    }
  }

  async #request(method, path, { parameters = {}, headers = {}, body, signal, authorization }) {
    const url = new URL(path, BASE);
    for (const [name, value] of Object.entries(parameters)) {
      if (value !== undefined && value !== null && value !== "") {
        url.searchParams.set(name, value);
      }
    }
    const all = { ...headers, ...(authorization ? { Authorization: authorization } : {}) };
    const options = { method, headers: all, body, signal, credentials: "omit", cache: "no-store", redirect: "error" };
    const answer = await fetched(url, options);
    if (answer.ok || answer.status === 304) {
      return answer;
    }
    throw new Problem(answer.status, await answer.json().catch(() => ({})), retryAfter(answer));
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
