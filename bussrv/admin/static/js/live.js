/**
 * Keeps the page's picture of the server up to date: figures each second, and every event of the journal.
 *
 * The stream of events begins first, then the list of sessions is asked for: so no event is missed, and one that the list
 * knows of already changes nothing. A browser opens only a few connections to one server, and a tab that nobody looks at
 * needs neither. So both are left alone after a while in a hidden tab, and events are caught up with when it is looked at again.
 */

import { EventStream } from "./event_stream.js";
import { Topic } from "./frame.js";

/** More events than this are not caught up with one by one: the list of sessions is asked for anew. */
const FAR = 20000;
/** After so many milliseconds in a hidden tab: the charts get a gap later than the lists get old. */
const HIDDEN = { events: 30000, figures: 300000 };
/** Without events the list is asked for again this often. */
const OFTEN = 5000;
/** With events, too, but seldom: a page of the list is made while events go on, and may know of some more than it says. */
const SELDOM = 60000;
const SKIPPED = "skipped";

export class Live {
  #hidden = [];
  #loading = false;
  #loaded = -Infinity;

  /**
   * @param {object} parts `figures`, `sessions`, and `takeRecords(records)`.
   */
  constructor(api, { figures, sessions, takeRecords }) {
    Object.assign(this, { figures, sessions, takeRecords });
    /** One of the two streams is in another state. */
    this.changed = new Topic();
    /** There may have been events that the page does not know of. */
    this.missed = new Topic();
    /** Figures come from now on; those of before are missing. */
    this.begun = new Topic();
    this.states = { figures: { state: "connecting" }, events: { state: "connecting" } };
    /** Since when the server has not answered, or `null`. */
    this.goneSince = null;
    /** The `seq` of the last event. */
    this.seq = 0;
    const stream = (name, path, onEvents) =>
      new EventStream(api, path, { onEvents, onState: (state) => this.#state(name, state) });
    this.streams = {
      figures: stream("figures", "live", (events) => this.#takeFigures(events)),
      events: stream("events", "events", (events) => this.#takeEvents(events)),
    };
    document.addEventListener("visibilitychange", () => this.#visibility());
    setInterval(() => this.#loadIfDue(), OFTEN);
  }

  /** Try again at once. */
  retry() {
    Object.values(this.streams).forEach((each) => each.retry());
  }

  #state(name, state) {
    this.states[name] = state;
    const states = Object.values(this.states).map((each) => each.state);
    if (states.includes("waiting")) {
      this.goneSince ??= Date.now();
    } else if (!states.includes("connecting")) {
      this.goneSince = null;
    }
    const anew = state.state === "live" && !state.resumed;
    if (name === "events" && (anew || (state.state === "refused" && !this.sessions.loaded))) {
      this.#load();
    }
    if (name === "figures" && state.state === "live") {
      this.begun.tell();
    }
    this.changed.tell();
  }

  async #load() {
    if (this.#loading) {
      return;
    }
    this.#loading = true;
    this.#loaded = performance.now();
    const seq = await this.sessions.load();
    this.#loading = false;
    if (seq !== null) {
      // If the stream ends before its first event, it has to go on from here.
      this.streams.events.lastId ??= String(seq);
      this.seq = Math.max(this.seq, seq);
      this.missed.tell();
    }
  }

  #loadIfDue() {
    const due = this.states.events.state === "live" && this.sessions.loaded ? SELDOM : OFTEN;
    if (!document.hidden && this.goneSince === null && performance.now() - this.#loaded >= due) {
      this.#load();
    }
  }

  #takeFigures(events) {
    const figures = JSON.parse(events.at(-1).data);
    if (figures.seq < (this.figures.latest?.seq ?? 0)) {
      // Another journal than before: nothing here is true any more.
      this.#beginAnew();
    }
    this.figures.add(figures);
  }

  #takeEvents(events) {
    this.seq = Number(events.at(-1).id);
    const records = events.filter(({ event }) => event !== SKIPPED).map(({ data }) => JSON.parse(data));
    // A record of an end does not say what its session was called.
    records.forEach((record) => this.sessions.name(record));
    this.sessions.follow(records);
    this.takeRecords(records);
    if (records.length < events.length) {
      this.#load();
    }
  }

  #beginAnew() {
    this.seq = 0;
    this.streams.events.again(null);
  }

  #visibility() {
    const { events, figures } = this.streams;
    this.#hidden.forEach(clearTimeout);
    if (document.hidden) {
      this.#hidden = Object.entries(HIDDEN).map(([name, length]) =>
        setTimeout(() => this.streams[name].pause(), length),
      );
      return;
    }
    if ((this.figures.latest?.seq ?? 0) - this.seq > FAR) {
      events.lastId = null;
    }
    figures.resume();
    events.resume();
  }
}
