/**
 * Whether the server is well: what `/readyz` says, check by check.
 */

import { Topic } from "./frame.js";
import { Poll } from "./poll.js";

const PAUSE = 5000;

export class Health {
  constructor(api) {
    this.changed = new Topic();
    /** `null` as long as it is not known; then `ok`, `degraded` or `down`. */
    this.state = null;
    /** `{name, ok, detail}` each. */
    this.checks = [];
    this.poll = new Poll(
      async () => this.#take(await api.ready()),
      PAUSE,
      () => {
        this.state = null;
        this.changed.tell();
      },
    );
    this.poll.start();
  }

  #take({ ready, body }) {
    this.checks = Object.entries(body.checks ?? {}).map(([name, check]) => ({ name, ...read(check) }));
    const failed = this.checks.some((check) => !check.ok) || Boolean(body.degraded?.length);
    this.state = ready ? (failed ? "degraded" : "ok") : "down";
    this.changed.tell();
  }

  /** The names of the checks that failed. */
  get failed() {
    return this.checks.filter((check) => !check.ok).map((check) => check.name);
  }
}

function read(check) {
  const ok = check === true || check === "ok" || check?.ok === true || check?.status === "ok";
  return { ok, detail: check?.detail ?? (typeof check === "string" && !ok ? check : "") };
}
