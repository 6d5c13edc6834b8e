/**
 * Reads server-sent events with `fetch`, because `EventSource` cannot say who asks. Goes on where it was when the server
 * comes back, and says what it is waiting for.
 */

import { EventParser } from "./event_parser.js";

const FIRST_DELAY = 500;
const LAST_DELAY = 15000;
/** The server writes at least a comment every 15 seconds. */
const SILENCE = 40000;
/** Until somebody signs in, or looks at the page. */
const FOR_EVER = 2 ** 30;

export class EventStream {
  #stopped = false;
  #paused = false;
  #anew = false;
  #abort = null;
  #wake = null;
  #unlisten = () => {};

  /**
   * @param {Api} api
   * @param {string} path of the stream.
   * @param {object} options `parameters`; `onEvents(list)`, for each piece that arrives; `onState({state, …})`, with
   *   `connecting`; `live` (`resumed`: after the last event); `waiting` (no answer; `retryAt`); `denied`; `refused`
   *   (`problem`, `retryAt`); `paused`; `stopped`.
   */
  constructor(api, path, { parameters = {}, onEvents, onState = () => {} }) {
    Object.assign(this, { api, path, parameters, onEvents, onState });
    /** The id of the last event; after it the stream goes on. */
    this.lastId = null;
    this.#unlisten = api.credentials.changed.listen(() => this.again());
    // Later: who makes it has not got it yet.
    queueMicrotask(() => this.#run());
  }

  stop() {
    this.#stopped = true;
    this.#unlisten();
    this.again();
    this.onState({ state: "stopped" });
  }

  /** Leave it for now; `resume` goes on after the last event. */
  pause() {
    this.#paused = true;
    this.#abort?.abort();
  }

  resume() {
    if (this.#paused) {
      this.#paused = false;
      this.#wake?.();
    }
  }

  /** Do not wait any longer. */
  retry() {
    this.#wake?.();
  }

  /** End what goes on, or the waiting, and connect, after the event with that id. */
  again(lastId = this.lastId) {
    this.lastId = lastId;
    this.#anew = true;
    this.#abort?.abort();
    this.#wake?.();
  }

  async #run() {
    let delay = FIRST_DELAY;
    while (!this.#stopped) {
      if (this.#paused) {
        this.onState({ state: "paused" });
        await this.#wait(FOR_EVER);
      }
      this.#anew = false;
      const problem = await this.#once(() => {
        delay = FIRST_DELAY;
      });
      if (!this.#stopped && !this.#paused && !this.#anew) {
        await this.#waitAfter(problem, delay * (0.75 + Math.random() / 2));
        delay = Math.min(delay * 2, LAST_DELAY);
      }
    }
  }

  async #waitAfter(problem, pause) {
    if (problem?.status === 401) {
      this.onState({ state: "denied", problem });
      await this.#wait(FOR_EVER);
      return;
    }
    const length = problem?.status ? Math.max(pause, (problem.retryAfter ?? LAST_DELAY / 1000) * 1000) : pause;
    this.onState({ state: problem?.status ? "refused" : "waiting", problem, retryAt: Date.now() + length });
    await this.#wait(length);
  }

  async #wait(length) {
    await new Promise((done) => {
      const timer = setTimeout(done, length);
      this.#wake = () => {
        clearTimeout(timer);
        done();
      };
    });
    this.#wake = null;
  }

  /** One connection, until it ends. @returns why it ended: an error, or `null` if the server ended it. */
  async #once(onOpen) {
    this.#abort = new AbortController();
    this.onState({ state: "connecting" });
    const resumed = this.lastId !== null;
    // The type of a body, although there is none: no page of another host can say so without being allowed to.
    const headers = { Accept: "text/event-stream", "Content-Type": "application/json" };
    if (resumed) {
      headers["Last-Event-ID"] = this.lastId;
    }
    try {
      const { parameters } = this;
      const { signal } = this.#abort;
      const answer = await this.#inTime(this.api.ask("GET", this.path, { parameters, headers, signal }));
      onOpen();
      this.onState({ state: "live", resumed });
      await this.#read(answer.body.pipeThrough(new TextDecoderStream()).getReader());
      return null;
    } catch (error) {
      return error;
    } finally {
      this.#abort = null;
    }
  }

  async #read(reader) {
    let found = [];
    const parser = new EventParser((event) => found.push(event));
    for (;;) {
      const { value, done } = await this.#inTime(reader.read());
      if (done) {
        return;
      }
      parser.push(value);
      if (found.length) {
        this.lastId = found[found.length - 1].id ?? this.lastId;
        this.onEvents(found);
        found = [];
      }
    }
  }

  async #inTime(reading) {
    const timer = setTimeout(() => this.#abort?.abort(), SILENCE);
    try {
      return await reading;
    } finally {
      clearTimeout(timer);
    }
  }
}
