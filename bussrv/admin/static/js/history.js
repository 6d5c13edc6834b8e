/**
 * Figures of the past, as the server keeps them: entries of the same form as those of figures.js.
 */

import { Topic } from "./frame.js";

/** Intervals follow each other if no more time is between them than this share of one. */
const TOUCHING = 0.75;

const NAMES = {
  objects_in: "objects_in",
  objects_out: "objects_out",
  bytes_in: "bytes_in",
  bytes_out: "bytes_out",
  denials: "denials",
  lost_objects: "lost",
  cpu: "cpu",
  sessions: "sessions",
  services: "services",
  subscriptions: "subscriptions",
  waiting_bytes: "waiting",
  memory_bytes: "memory",
  descriptors: "descriptors",
  delivery_p50: "delivery50",
  delivery_p99: "delivery99",
  sync_p50: "sync50",
  sync_p99: "sync99",
};

/** What happens so rarely that charts show how often in a minute. */
const RARE = ["denials", "lost"];
const MINUTE = 60000;

/** Add to the last entry how much of what is rare there was in a minute, by the mean of the minute before it. */
export function addMinute(entries) {
  const last = entries.at(-1);
  const begin = entries.findLastIndex(({ time, isGap }) => isGap || time <= last.time - MINUTE) + 1;
  for (const name of RARE) {
    const known = entries.slice(begin).filter((entry) => Number.isFinite(entry[name]));
    const sum = (value) => known.reduce((total, entry) => total + value(entry), 0);
    last[`${name}_a_minute`] = (60 * sum((entry) => entry[name] * (entry.seconds ?? 1))) / sum((entry) => entry.seconds ?? 1);
  }
}

/** The entries of an answer of `/api/v1/history`, with one that is a gap wherever no interval is. */
export function entriesOf({ times, seconds, figures, interval }, names = NAMES) {
  const columns = Object.entries(names).map(([from, to]) => [to, figures[from] ?? []]);
  const entries = [];
  times.forEach((text, index) => {
    const time = Date.parse(text);
    const begin = time - seconds[index] * 1000;
    const before = entries.at(-1);
    if (before && begin - before.time > TOUCHING * interval * 1000) {
      entries.push({ time: before.time + 1, isGap: true });
    }
    const values = columns.map(([name, column]) => [name, column[index] ?? NaN]);
    entries.push({ time, seconds: seconds[index], ...Object.fromEntries(values) });
    addMinute(entries);
  });
  return entries;
}

/** The marks of an answer. */
export function marksOf({ marks }) {
  return marks.map(({ time, kind }) => ({ time: Date.parse(time), kind }));
}

/** The figures of one range of time. */
export class History {
  constructor(api) {
    this.api = api;
    this.changed = new Topic();
    this.entries = [];
    this.marks = [];
    this.problem = null;
    /** What was asked for last: an answer to another question comes too late. */
    this.asked = null;
  }

  /** Ask for a range: `since` and `until` as the server takes them. */
  async ask(since, until) {
    const asked = `${since} ${until}`;
    if (asked !== this.asked) {
      this.entries = [];
      this.asked = asked;
    }
    try {
      const found = await this.api.get("history", { parameters: { since, until } });
      if (asked === this.asked) {
        Object.assign(this, { entries: entriesOf(found), marks: marksOf(found), problem: null });
      }
    } catch (error) {
      this.problem = error;
    }
    this.changed.tell();
  }
}
