/**
 * Keeps the page's picture of the server up to date: figures each second, and every event of the journal.
 *
 * A browser opens only a few connections to one server, and a tab that nobody looks at needs no events. So these are
 * left alone after a while in a hidden tab, and caught up with when it is looked at again.
 */

import { EventStream } from "./event_stream.js";
import { Topic } from "./frame.js";

/** More events than this are not caught up with one by one: the list of sessions is asked for anew. */
const FAR = 20000;
const HIDDEN = 30000;
/** Without a journal there are no events: then the list is asked for this often. */
const POLL = 5000;

export class Live {
  #figures = null;
  #events = null;
  #starting = false;
  #hidden = null;
  #polling = null;

  constructor(api, { figures, sessions, takeRecords }) {
    Object.assign(this, { api, figures, sessions, takeRecords });
    this.changed = new Topic();
    /** What each stream says of itself. */
    this.states = { figures: { state: "connecting" }, events: { state: "connecting" } };
    /** Since when the server has not answered, or `null`. */
    this.goneSince = null;
    /** The `seq` of the last event. */
    this.seq = 0;
    this.#figures = new EventStream(api, "live", {
      onEvents: (events) => this.#takeFigures(events),
      onState: (state) => this.#state("figures", state),
    });
    document.addEventListener("visibilitychange", () => this.#visibility());
    this.#restart();
  }

  /** Try again at once. */
  retry() {
    this.#figures.retry();
    this.#events?.retry();
    if (!this.#events) {
      this.#restart();
    }
  }

  #takeFigures(events) {
    const figures = JSON.parse(events.at(-1).data);
    if (figures.seq < this.seq) {
      // Another journal than before: nothing here is true any more.
      this.#restart();
    }
    this.figures.add(figures);
  }

  #state(name, state) {
    this.states[name] = state;
    const states = Object.values(this.states).map((each) => each.state);
    if (states.includes("waiting")) {
      this.goneSince ??= Date.now();
    } else if (states.includes("live") && !states.includes("connecting")) {
      this.goneSince = null;
    }
    if (name === "figures" && state.state === "live" && !this.#events) {
      this.#restart();
    }
    this.changed.tell();
  }

  /** Ask for the list of sessions, then follow the events after it. */
  async #restart() {
    if (this.#starting) {
      return;
    }
    this.#starting = true;
    this.#events?.stop();
    this.#events = null;
    const seq = await this.sessions.load();
    this.#starting = false;
    if (seq !== null) {
      this.#follow(seq);
    }
  }

  #follow(seq) {
    this.seq = seq;
    this.#events = new EventStream(this.api, "events", {
      parameters: { after: seq },
      onEvents: (events) => this.#takeEvents(events),
      onState: (state) => this.#eventsState(state),
    });
  }

  #eventsState(state) {
    this.#state("events", state);
    if (state.state === "refused") {
      this.#polling ??= setInterval(() => document.hidden || this.sessions.load(), POLL);
    } else if (state.state === "live") {
      clearInterval(this.#polling);
      this.#polling = null;
    }
  }

  #takeEvents(events) {
    const records = events.map((event) => JSON.parse(event.data));
    this.seq = records.at(-1).seq;
    this.sessions.follow(records);
    this.takeRecords(records);
  }

  #visibility() {
    clearTimeout(this.#hidden);
    if (document.hidden) {
      this.#hidden = setTimeout(() => this.#events?.pause(), HIDDEN);
    } else if ((this.figures.latest?.seq ?? 0) - this.seq > FAR) {
      this.#restart();
    } else {
      this.#events?.resume();
    }
  }
}
