/**
 * The figures of each second: those of the last ten minutes that the server kept, then those that it sends.
 */

import { setServerTime } from "./format.js";
import { Topic } from "./frame.js";
import { addMinute, entriesOf, marksOf } from "./history.js";

/** Seconds that are kept: as many as the server keeps one by one. */
export const KEPT = 600;
/** Seconds without figures that make a gap: a line across it would claim what nobody saw. */
const GAP = 3.5;

/** Entries that count as the latest. */
const LATELY = 60;

const TOTALS = { objects_in: "objects_in", objects_out: "objects_out", bytes_in: "bytes_in", bytes_out: "bytes_out" };
const ALL_TOTALS = { ...TOTALS, denials: "denials", lost: "lost_objects", cpu: "cpu_seconds" };
/** Records that are marks in charts. */
const MARKS = { "server.started": "started", "config.reloaded": "reloaded", "config.reload-failed": "reload-failed" };

export class Figures {
  constructor() {
    this.changed = new Topic();
    /** The latest figures as the server sent them. */
    this.latest = null;
    /** One entry a second: `time` in milliseconds, rates a second, times in seconds; a gap has no figures. */
    this.history = [];
    /** What charts tell of: `time` and `kind`. */
    this.marks = [];
  }

  /** Begin with what the server kept, an answer of `/api/v1/history`; what it sent later follows. */
  begin(kept) {
    const entries = entriesOf(kept);
    const last = entries.at(-1)?.time ?? -Infinity;
    const later = this.history.filter((entry) => entry.time > last + 500);
    const isGap = entries.length && later.length && later[0].time - last > GAP * 1000;
    this.history = [...entries, ...(isGap ? [{ time: last + 1, isGap: true }] : []), ...later];
    this.marks = marksOf(kept);
    this.changed.tell();
  }

  /** Note what of these records a chart has to tell of. */
  note(records) {
    for (const record of records.filter(({ event }) => MARKS[event])) {
      const mark = { time: Date.parse(record.time), kind: MARKS[record.event] };
      if (!this.marks.some(({ time, kind }) => kind === mark.kind && Math.abs(time - mark.time) < 1000)) {
        this.marks.push(mark);
      }
    }
  }

  add(figures) {
    setServerTime(figures.time);
    const entry = this.#entry(figures);
    const before = this.history.at(-1);
    if (before && entry.time - before.time > GAP * 1000) {
      this.history.push({ time: before.time + 1, isGap: true });
    }
    this.history.push(entry);
    addMinute(this.history);
    if (this.history.length > KEPT + KEPT / 5) {
      this.history.splice(0, this.history.length - KEPT);
    }
    this.latest = figures;
    this.changed.tell();
  }

  #entry(figures) {
    const time = Date.parse(figures.time);
    const sessions = Object.values(figures.sessions ?? {}).reduce((sum, each) => sum + each, 0);
    const entry = {
      time,
      sessions,
      services: figures.services,
      subscriptions: figures.subscriptions,
      waiting: figures.waiting_bytes,
      memory: figures.memory_bytes ?? NaN,
      descriptors: figures.descriptors ?? NaN,
    };
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
    const grew = before && Object.values(TOTALS).every((name) => figures[name] >= before[name]);
    return Object.fromEntries(
      Object.entries(ALL_TOTALS).map(([name, total]) => [
        name,
        span > 0 && grew ? (figures[total] - before[total]) / span : NaN,
      ]),
    );
  }

  /** The last `span` seconds, as charts show them: no more than are kept. */
  shown(span = KEPT) {
    const until = this.history.at(-1)?.time ?? Date.now();
    const from = until - Math.min(span, KEPT) * 1000;
    return { entries: this.history, marks: this.marks, from, until, isLive: true };
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
