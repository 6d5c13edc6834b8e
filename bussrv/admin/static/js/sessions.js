/**
 * The sessions that are present, held by the page: a list from the server, then every event after it.
 *
 * Pages of the list are of different moments. So each session knows the `seq` that it is as of, and an event that is not
 * later changes nothing.
 */

import { timeOf } from "./format.js";
import { Topic } from "./frame.js";
import { calledBy } from "./names.js";

const MOST = 20000;

/** What an event does to counts of its session. */
const STEPS = {
  "service.registered": ["services", 1],
  "service.unregistered": ["services", -1],
  "subscription.added": ["subscriptions", 1],
  "subscription.removed": ["subscriptions", -1],
};

/** What is known of a session that is not away. */
const PRESENT = { state: "open", away_since: null, kept_until: null };

export class Sessions {
  #byId = new Map();
  /** Records that come while the list is on its way, or `null`. */
  #early = null;

  constructor(api) {
    this.api = api;
    this.changed = new Topic();
    this.loaded = false;
    this.problem = null;
    /** How many the server has beyond those that are held here. */
    this.left = 0;
  }

  get(id) {
    return this.#byId.get(id);
  }

  values() {
    return [...this.#byId.values()];
  }

  /** Have a record say what its session is called, if that is known here. The record itself has no such field. */
  name(record) {
    const session = this.get(record.session);
    if (session && !record.actor && !record.claimed) {
      Object.defineProperty(record, "called", { value: calledBy(session) });
    }
  }

  /** Ask for the whole list. @returns the `seq` of its first page, or `null` if there was no answer. */
  async load() {
    const found = new Map();
    let first = null;
    const onPage = (page) => {
      first ??= page.seq;
      for (const item of page.items) {
        found.set(item.session, { ...item, seq: page.seq });
      }
    };
    this.#early = [];
    try {
      const { total } = await this.api.all("sessions", { most: MOST, onPage });
      this.#byId = found;
      this.#early.forEach((record) => this.#apply(record));
      Object.assign(this, { loaded: true, problem: null, left: found.size < MOST ? 0 : total - found.size });
    } catch (error) {
      this.problem = error;
      first = null;
    }
    this.#early = null;
    this.changed.tell();
    return first;
  }

  /** Follow these records of the journal. */
  follow(records) {
    this.#early?.push(...records);
    for (const record of records) {
      this.#apply(record);
    }
    this.changed.tell();
  }

  #apply(record) {
    if (!record.session) {
      return;
    }
    if (record.event === "session.opened") {
      this.#open(record);
      return;
    }
    const session = this.#byId.get(record.session);
    if (!session || session.seq >= record.seq) {
      return;
    }
    if (record.event === "session.closed") {
      this.#byId.delete(record.session);
      return;
    }
    session.seq = record.seq;
    this.#change(session, record);
  }

  #open(record) {
    const known = this.#byId.get(record.session);
    if (known && known.seq >= record.seq) {
      return;
    }
    const { session, protocol, routing_id, actor = null, claimed = null, peer = null, seq } = record;
    const { persistent = false, home = null, routing_ids = [] } = record;
    const counts = { services: 0, subscriptions: 0, provides: [] };
    const who = { session, protocol, routing_id, routing_ids, actor, claimed, peer };
    this.#byId.set(session, { ...who, opened: record.time, persistent, home, ...PRESENT, seq, ...counts });
  }

  #change(session, record) {
    const step = STEPS[record.event];
    if (step) {
      session[step[0]] = Math.max(0, session[step[0]] + step[1]);
    }
    for (const field of ["routing_id", "actor", "claimed", "peer"]) {
      if (record[field]) {
        session[field] = record[field];
      }
    }
    if (record.event === "service.registered") {
      session.provides = [...(session.provides ?? []), record.service];
    } else if (record.event === "service.unregistered") {
      session.provides = (session.provides ?? []).filter((each) => each !== record.service);
    }
    if (record.event === "session.identified") {
      session.name = record.name ?? session.name;
      session.routing_ids = record.routing_ids ?? session.routing_ids;
    }
    if (record.event === "session.left") {
      Object.assign(session, { state: "away", away_since: record.time, kept_until: timeOf(record.until) });
    } else if (record.event === "session.resumed") {
      Object.assign(session, PRESENT);
    }
  }
}
