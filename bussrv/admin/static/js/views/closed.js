/**
 * Sessions that closed lately, and why.
 */

import { h } from "../dom.js";
import { eachFrame } from "../frame.js";
import { brief, bytes, count, duration } from "../format.js";
import { Grouping, shownIn } from "../grouping.js";
import { short } from "../names.js";
import { choice, filterInput, nothing } from "../parts.js";
import { agoColumn, Table } from "../table.js";
import { called, gravity } from "../words.js";
import { frame, matching } from "./frame.js";

const FIELDS = ["routing_id", "actor", "claimed", "peer", "session", "reason"];
const CALM = 400;

export function closedView(app) {
  let text = "";
  let odd = "";
  const filter = filterInput("Filter closed sessions", (value) => {
    text = value;
    draw();
  });
  const which = choice(
    "Which ones",
    [
      ["", "All"],
      ["odd", "Only unusual ends"],
    ],
    "",
    (value) => {
      odd = value;
      draw();
    },
  );
  const table = new Table({
    caption: "Closed sessions",
    key: (row) => row.seq,
    open: (row) => app.router.open({ session: row.session }),
    empty: nothing("No session closed lately"),
    columns: [
      agoColumn("Closed", (row) => row.time),
      { label: "Client", least: 12, text: called },
      { label: "Reason", width: 9.25, mono: true, text: (row) => row.reason ?? "", kind: gravity },
      { label: "Meaning", rank: 3, least: 16, share: 2, text: (row) => app.reasons.meaning(row.reason), kind: () => "soft" },
      { label: "Format", width: 6, rank: 1, text: (row) => row.protocol },
            { label: "Address", width: 12.5, rank: 2, mono: true, text: (row) => short(row.peer) },
      { label: "Lasted", width: 7, rank: 1, end: true, text: (row) => duration(row.duration / 1e6) },
      { label: "In", width: 5.5, rank: 4, end: true, text: (row) => brief(row.objects_in ?? 0) },
      { label: "Out", width: 5.5, rank: 4, end: true, text: (row) => brief(row.objects_out ?? 0) },
      { label: "Sent", width: 6.5, rank: 4, end: true, text: (row) => bytes(row.bytes_out ?? 0) },
    ],
  });
  const grouping = new Grouping("Closed sessions", ["reason", "user", "address"], () => draw(), (wanted) => {
    text = filter.value = wanted;
    draw();
  });
  const place = h("div", { class: "stack" });
  const view = frame({ title: "Closed sessions", tools: [grouping.choice, which, filter], content: place, fixed: true });
  const draw = eachFrame(show, CALM);

  function show() {
    const match = matching(text, FIELDS);
    const all = app.closed.list;
    const found = all.filter((row) => (!odd || gravity(row)) && (!match || match(row)));
    if (shownIn(place, grouping, table)) {
      grouping.show(found);
    }
    const rows = found.reverse();
    const narrowed = rows.length < all.length ? ` of the last ${count(all.length)}` : "";
    view.amount(all.length ? `${count(rows.length)}${narrowed}` : "");
    table.empty = all.length ? nothing("Nothing matches") : nothing("No session closed lately");
    table.rows = rows;
  }

  app.closed.changed.listen(draw);
  return { ...view, show: draw, filter, tick: () => [table, grouping.table].forEach((each) => each.draw()) };
}
