/**
 * The figures of each second, as far back as the page has been open, and the rates between them.
 */

import { setServerTime } from "./format.js";
import { Topic } from "./frame.js";

/** An hour. */
const KEPT = 3600;
/** Seconds without figures that make a gap: a line across it would claim what nobody saw. */
const GAP = 3.5;

/** Entries that count as the latest. */
const LATELY = 60;

const TOTALS = ["objects_in", "objects_out", "bytes_in", "bytes_out"];

export class Figures {
  constructor() {
    this.changed = new Topic();
    /** The latest figures as the server sent them. */
    this.latest = null;
    /** One entry a second: `time` in milliseconds, rates a second, times in seconds; a gap has no figures. */
    this.history = [];
  }

  add(figures) {
    setServerTime(figures.time);
    const entry = this.#entry(figures);
    const before = this.history.at(-1);
    if (before && entry.time - before.time > GAP * 1000) {
      this.history.push({ time: before.time + 1, isGap: true });
    }
    this.history.push(entry);
    if (this.history.length > KEPT + KEPT / 10) {
      this.history.splice(0, this.history.length - KEPT);
    }
    this.latest = figures;
    this.changed.tell();
  }

  #entry(figures) {
    const time = Date.parse(figures.time);
    const sessions = Object.values(figures.sessions ?? {}).reduce((sum, each) => sum + each, 0);
    const entry = { time, sessions, waiting: figures.waiting_bytes };
    for (const [name, quantiles] of Object.entries({
      delivery: figures.delivery_seconds,
      sync: figures.journal_sync_seconds,
    })) {
      entry[`${name}50`] = quantiles?.p50 ?? NaN;
      entry[`${name}99`] = quantiles?.p99 ?? NaN;
    }
    return { ...entry, ...this.#rates(figures, time) };
  }

  /** Totals begin again when the server does: there is no rate across that. */
  #rates(figures, time) {
    const before = this.latest;
    const span = before ? (time - Date.parse(before.time)) / 1000 : 0;
    const grew = before && TOTALS.every((name) => figures[name] >= before[name]);
    return Object.fromEntries(
      TOTALS.map((name) => [name, span > 0 && grew ? (figures[name] - before[name]) / span : NaN]),
    );
  }

  /** The rates and numbers of the last second. */
  get now() {
    return this.history.at(-1) ?? {};
  }

  /** The latest value that there was: of times there is none in a second without any. */
  lately(name) {
    for (let index = this.history.length - 1; index >= Math.max(0, this.history.length - LATELY); index -= 1) {
      if (Number.isFinite(this.history[index][name])) {
        return this.history[index][name];
      }
    }
    return NaN;
  }
}
