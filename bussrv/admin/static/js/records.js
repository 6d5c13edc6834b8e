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
  }

  /** Take records, in the order of `seq`; those that are not later than the last one were here before. */
  add(records) {
    const last = this.list.at(-1)?.seq ?? 0;
    const fresh = records.filter((record) => record.seq > last && this.wanted(record));
    if (fresh.length === 0) {
      return;
    }
    this.list.push(...fresh);
    // Cut rarely: moving a long list at each event would cost more than the event.
    if (this.list.length > this.most * 1.25) {
      this.list.splice(0, this.list.length - this.most);
    }
    this.changed.tell(fresh);
  }

  /** Take records that the server kept, wherever they belong. */
  merge(records) {
    const all = new Map([...records, ...this.list].map((record) => [record.seq, record]));
    this.list = [...all.values()].sort((one, other) => one.seq - other.seq).slice(-this.most);
    this.changed.tell();
  }

  find(seq) {
    return this.list.find((record) => record.seq === seq);
  }
}
