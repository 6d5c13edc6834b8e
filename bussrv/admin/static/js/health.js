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
    /** `{name, status, message}` each; the status is `ok`, `degraded` or `failed`. */
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
    this.checks = Object.entries(body.checks).map(([name, { status, message }]) => ({ name, status, message }));
    this.state = ready ? (this.failed.length ? "degraded" : "ok") : "down";
    this.changed.tell();
  }

  /** The names of the checks that are not well. */
  get failed() {
    return this.checks.filter((check) => check.status !== "ok").map((check) => check.name);
  }
}
