/**
 * What was denied lately: actions that no rule allows, and failed logins.
 */

import { h } from "../dom.js";
import { eachFrame } from "../frame.js";
import { count } from "../format.js";
import { Grouping, shownIn } from "../grouping.js";
import { short } from "../names.js";
import { filterInput, nothing } from "../parts.js";
import { agoColumn, Table } from "../table.js";
import { called } from "../words.js";
import { frame, matching } from "./frame.js";

const FIELDS = ["routing_id", "actor", "claimed", "peer", "target", "action", "rule", "reason"];
const CALM = 400;

export function deniedView(app) {
  let text = "";
  const filter = filterInput("Filter denials", (value) => {
    text = value;
    draw();
  });
  const table = new Table({
    caption: "Denied",
    key: (row) => row.seq,
    open: (row) => app.router.open(row.session ? { session: row.session } : { record: row.seq }),
    empty: nothing("Nothing was denied lately"),
    columns: [
      agoColumn("Denied", (row) => row.time),
      { label: "Client", least: 12.5, text: called },
      { label: "Wanted", least: 11, text: wanted },
      { label: "Reason", width: 8.5, mono: true, rank: 1, text: (row) => row.reason ?? "", kind: () => "odd" },
      { label: "Rule", rank: 2, least: 14, share: 1.5, text: (row) => short(row.rule), kind: () => "soft" },
      { label: "Format", width: 6, rank: 3, text: (row) => row.protocol ?? "" },
      { label: "Address", width: 12.5, rank: 2, mono: true, text: (row) => short(row.peer) },
      { label: "Left out", width: 6, rank: 4, end: true, text: (row) => (row.suppressed ? count(row.suppressed) : "") },
    ],
  });
  const grouping = new Grouping("Denied", ["rule", "user", "address"], () => draw(), (wanted) => {
    text = filter.value = wanted;
    draw();
  });
  const place = h("div", { class: "stack" });
  const view = frame({ title: "Denied", tools: [grouping.choice, filter], content: place, fixed: true });
  const draw = eachFrame(show, CALM);

  function show() {
    const match = matching(text, FIELDS);
    const all = app.denied.list;
    const found = match ? all.filter(match) : [...all];
    if (shownIn(place, grouping, table)) {
      grouping.show(found);
    }
    const rows = found.reverse();
    view.amount(rows.length ? count(rows.length) : "");
    table.empty = all.length
      ? nothing("Nothing matches")
      : nothing("Nothing was denied lately", "Denials of the policy and failed logins show up here.");
    table.rows = rows;
  }

  app.denied.changed.listen(draw);
  return { ...view, show: draw, filter, tick: () => [table, grouping.table].forEach((each) => each.draw()) };
}

/** What somebody was not allowed to do: provide alarm. */
function wanted(row) {
  return row.action ? `${row.action} ${short(row.target)}` : "log in";
}
