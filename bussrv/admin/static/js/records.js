/**
 * The latest records of the journal, oldest first, and those of some events of their own: what closed, what was denied.
 */

import { Topic } from "./frame.js";

export class Records {
  /**
   * @param {number} most how many are kept.
   * @param {function} wanted which ones.
   */
  constructor(most, wanted = () => true) {
    this.changed = new Topic();
    this.most = most;
    this.wanted = wanted;
    this.list = [];
    /** How many there have been in all, since the page was opened. */
    this.seen = 0;
  }

  /** Take records, in the order of `seq`; those that are not later than the last one were here before. */
  add(records) {
    const last = this.list.at(-1)?.seq ?? 0;
    const fresh = records.filter((record) => record.seq > last && this.wanted(record));
    if (fresh.length === 0) {
      return;
    }
    this.seen += fresh.length;
    this.list.push(...fresh);
    // Cut rarely: moving a long list at each event would cost more than the event.
    if (this.list.length > this.most * 1.25) {
      this.list.splice(0, this.list.length - this.most);
    }
    this.changed.tell();
  }

  /** Put records that the server kept before those that are here. */
  prepend(records) {
    const first = this.list[0]?.seq ?? Infinity;
    const older = records.filter((record) => record.seq < first).sort((one, other) => one.seq - other.seq);
    this.list.unshift(...older);
    this.changed.tell();
  }

  find(seq) {
    return this.list.find((record) => record.seq === seq);
  }
}
