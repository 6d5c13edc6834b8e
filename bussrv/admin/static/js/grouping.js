/**
 * Groups records by what they have in common: the rule, the user or the address. A thousand denials are few groups.
 */

import { fill } from "./dom.js";
import { count } from "./format.js";
import { short } from "./names.js";
import { choice, nothing } from "./parts.js";
import { agoColumn, Table } from "./table.js";
import { who } from "./words.js";

/** A peer without its port. */
export function host(peer) {
  if (!peer) {
    return "";
  }
  if (peer.startsWith("[")) {
    return peer.slice(1).split("]")[0];
  }
  const parts = peer.split(":");
  return parts.length > 2 ? peer : parts[0];
}

const KEYS = {
  rule: ["Rule", (row) => row.rule || row.reason],
  user: ["User", (row) => who(row)],
  address: ["Address", (row) => host(row.peer)],
  reason: ["Reason", (row) => row.reason],
};

/** A choice of how rows are grouped, and the table of the groups. */
export class Grouping {
  /**
   * @param {string} caption
   * @param {string[]} by the names of `KEYS` that can be chosen.
   * @param {function} changed is called when another one is chosen.
   * @param {function} narrow is called with a text that finds the rows of a group.
   */
  constructor(caption, by, changed, narrow) {
    this.by = "";
    const options = [["", "Each one"], ...by.map((each) => [each, `By ${KEYS[each][0].toLowerCase()}`])];
    this.choice = choice("Grouped", options, "", (value) => {
      this.by = value;
      changed();
    });
    this.table = new Table({
      caption: `${caption}, grouped`,
      key: (row) => row.key,
      open: (row) => {
        this.by = this.choice.value = "";
        narrow(row.key);
      },
      empty: nothing("Nothing to group"),
      sort: "-Number",
      columns: [
        { label: "Group", text: (row) => short(row.key) || `no ${KEYS[this.by][0].toLowerCase()}`, sort: (row) => row.key },
        { label: "Number", width: 6, end: true, text: (row) => count(row.number), sort: (row) => row.number },
        { label: "Left out", width: 6, end: true, rank: 2, text: (row) => (row.suppressed ? count(row.suppressed) : ""), sort: (row) => row.suppressed },
        agoColumn("First", (row) => row.first, { rank: 3, sort: (row) => row.first }),
        agoColumn("Last", (row) => row.last, { rank: 1, sort: (row) => row.last }),
        { label: "Users", width: 5, end: true, rank: 2, text: (row) => count(row.users.size), sort: (row) => row.users.size },
        { label: "Addresses", width: 7, end: true, rank: 1, text: (row) => count(row.addresses.size), sort: (row) => row.addresses.size },
      ],
    });
  }

  /** The groups of rows, oldest first. */
  show(rows) {
    this.table.rows = [...groups(rows, KEYS[this.by][1]).values()];
  }
}

/** Put the table of the groups, or that of single rows, into its place. @returns whether it is that of the groups. */
export function shownIn(place, grouping, single) {
  const isGrouped = grouping.by !== "";
  const { element } = isGrouped ? grouping.table : single;
  if (place.firstChild !== element) {
    fill(place, element);
  }
  return isGrouped;
}

/** The groups of rows by a key; it is empty for those that have nothing in common. */
export function groups(rows, keyOf) {
  const found = new Map();
  for (const row of rows) {
    const key = keyOf(row);
    let group = found.get(key);
    if (!group) {
      group = { key, number: 0, suppressed: 0, first: row.time, last: row.time, users: new Set(), addresses: new Set() };
      found.set(key, group);
    }
    group.number += 1;
    group.suppressed += row.suppressed ?? 0;
    group.first = row.time < group.first ? row.time : group.first;
    group.last = row.time > group.last ? row.time : group.last;
    add(group.users, who(row));
    add(group.addresses, host(row.peer));
  }
  return found;
}

/** Nobody, and no address, are not counted. */
function add(set, value) {
  if (value) {
    set.add(value);
  }
}
