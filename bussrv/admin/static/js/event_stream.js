/**
 * Reads server-sent events with `fetch`, because `EventSource` cannot say who asks. Goes on where it was when the server
 * comes back, and says what it is waiting for.
 */

const FIRST_DELAY = 500;
const LAST_DELAY = 15000;
/** The server writes at least a comment every 15 seconds. */
const SILENCE = 40000;
/** Until somebody signs in, or looks at the page. */
const FOR_EVER = 2 ** 30;
/** What an answer with an error waits for; after any other one the server is tried again. */
const WAITING_FOR = { 401: "denied", 403: "refused", 404: "refused" };

/** Takes text in any pieces, and gives events: `{id, event, data}`. */
export class EventParser {
  #rest = "";
  #data = [];
  #event = "";
  #id = null;

  constructor(emit) {
    this.emit = emit;
  }

  push(text) {
    const lines = (this.#rest + text).split("\n");
    this.#rest = lines.pop();
    for (const line of lines) {
      this.#line(line.endsWith("\r") ? line.slice(0, -1) : line);
    }
  }

  #line(line) {
    if (line === "") {
      this.#dispatch();
      return;
    }
    const colon = line.indexOf(":");
    if (colon === 0) {
      return;
    }
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(line[colon + 1] === " " ? colon + 2 : colon + 1);
    if (field === "data") {
      this.#data.push(value);
    } else if (field === "event") {
      this.#event = value;
    } else if (field === "id") {
      this.#id = value;
    }
  }

  #dispatch() {
    if (this.#data.length) {
      this.emit({ id: this.#id, event: this.#event || "message", data: this.#data.join("\n") });
    }
    this.#data = [];
    this.#event = "";
  }
}

export class EventStream {
  #stopped = false;
  #paused = false;
  #abort = null;
  #wake = null;
  #unlisten = () => {};

  /**
   * @param {Api} api
   * @param {string} path of the stream.
   * @param {object} options `parameters` of the first request; `onEvents(list)`, for each piece that arrives;
   *   `onState({state, retryAt, problem})`, with `connecting`, `live`, `waiting`, `denied`,
   *   `refused`, `paused` or `stopped`.
   */
  constructor(api, path, { parameters = {}, onEvents, onState = () => {} }) {
    Object.assign(this, { api, path, parameters, onEvents, onState });
    this.lastId = null;
    this.#unlisten = api.credentials.changed.listen(() => this.#again());
    this.#run();
  }

  stop() {
    this.#stopped = true;
    this.#unlisten();
    this.#again();
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

  /** End what goes on, or the waiting, and connect. */
  #again() {
    this.#abort?.abort();
    this.#wake?.();
  }

  async #run() {
    let delay = FIRST_DELAY;
    while (!this.#stopped) {
      if (this.#paused) {
        await this.#wait(null, 0);
      }
      const problem = await this.#once(() => {
        delay = FIRST_DELAY;
      });
      if (this.#stopped) {
        return;
      }
      const pause = problem?.retryAfter ? problem.retryAfter * 1000 : delay * (0.75 + Math.random() / 2);
      delay = Math.min(delay * 2, LAST_DELAY);
      await this.#wait(problem, pause);
    }
  }

  async #wait(problem, pause) {
    const state = this.#paused ? "paused" : (WAITING_FOR[problem?.status] ?? "waiting");
    const length = state === "waiting" ? pause : Math.max(pause, LAST_DELAY);
    this.onState({ state, problem, retryAt: Date.now() + length });
    await new Promise((done) => {
      const timer = setTimeout(done, state === "denied" || state === "paused" ? FOR_EVER : length);
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
    const headers = { Accept: "text/event-stream", ...(this.lastId ? { "Last-Event-ID": this.lastId } : {}) };
    const parameters = this.lastId ? { ...this.parameters, after: undefined } : this.parameters;
    try {
      const answer = await this.api.ask("GET", this.path, { parameters, headers, signal: this.#abort.signal });
      onOpen();
      this.onState({ state: "live" });
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
