/**
 * Records of the journal as they are written, newest first.
 */

import { h, setText } from "../dom.js";
import { eachFrame } from "../frame.js";
import { count, dateAndZone, timeOfDay } from "../format.js";
import { short } from "../names.js";
import { button, choice, filterInput, nothing } from "../parts.js";
import { Table } from "../table.js";
import { called, gravity, object, remark, title } from "../words.js";
import { frame, matching } from "./frame.js";

const FIELDS = ["event", "routing_id", "actor", "claimed", "peer", "session", "service", "reason", "target"];
const CALM = 250;
const KINDS = [
  "session",
  "service",
  "subscription",
  "auth",
  "access",
  "limit",
  "link",
  "config",
  "journal",
  "server",
  "admin",
];

export function eventsView(app) {
  let text = "";
  let kind = "";
  let held = null;
  const filter = filterInput("Filter events", (value) => {
    text = value;
    draw();
  });
  const kinds = choice(
    "Kind of event",
    [["", "All events"], ...KINDS.map((each) => [each, `${each}.…`])],
    "",
    (value) => {
      kind = value;
      draw();
    },
  );
  const pause = button("Pause", () => hold(held ? null : app.records.list.slice()));
  const fresh = button(
    "",
    () => {
      table.toTop();
      hold(null);
    },
    "fresh",
  );
  fresh.hidden = true;
  const table = new Table({
    caption: "Events",
    key: (row) => row.seq,
    open: (row) => app.router.open({ record: row.seq }),
    empty: nothing("No events yet"),
    columns: [
      { label: "Time", width: 7.75, text: (row) => timeOfDay(row.time, true), hover: (row) => dateAndZone(row.time), kind: () => "soft" },
      { label: "Event", width: 9.25, text: title, kind: gravity },
      { label: "What", least: 9, text: what },
      { label: "Client", least: 13.5, rank: 1, text: client },
      { label: "Format", width: 6, rank: 3, text: (row) => row.protocol ?? "" },
      { label: "Details", least: 14, share: 2, rank: 2, text: remark, kind: () => "soft" },
      { label: "Address", width: 12.5, rank: 3, mono: true, text: (row) => short(row.peer), kind: () => "soft" },
      { label: "Seq", width: 6, rank: 1, end: true, text: (row) => count(row.seq), kind: () => "soft" },
    ],
  });

  /** What it happened to. Where the column of clients has no room, that may be a client. */
  function what(row) {
    return short(object(row)) || (table.shows("Client") ? "" : client(row));
  }

  const content = h("div", { class: "stack" }, fresh, table.element);
  const view = frame({ title: "Events", tools: [kinds, filter, pause], content, fixed: true });
  const draw = eachFrame(show, CALM);
  // Who reads further down does not want the rows to move.
  table.scroller.addEventListener("scroll", () => {
    if (!table.atTop && !held) {
      hold(app.records.list.slice());
    }
  });

  function hold(list) {
    held = list;
    setText(pause, held ? "Go on" : "Pause");
    pause.setAttribute("aria-pressed", Boolean(held));
    draw();
  }

  function show() {
    if (!view.element.isConnected) {
      return;
    }
    const all = held ?? app.records.list;
    const match = matching(text, FIELDS);
    const wanted = kind ? `${kind}.` : "";
    const rows =
      match || wanted ? all.filter((row) => row.event.startsWith(wanted) && (!match || match(row))) : all.slice();
    const since = held ? (app.records.list.at(-1)?.seq ?? 0) - (held.at(-1)?.seq ?? 0) : 0;
    fresh.hidden = since <= 0;
    setText(fresh, `↑ ${count(since)} newer`);
    view.amount(rows.length ? `the last ${count(rows.length)}` : "");
    table.empty = all.length
      ? nothing("Nothing matches", "None of the latest events has that.")
      : nothing("No events yet", "Events of the registry show up here as they are written.");
    table.rows = rows.reverse();
  }

  app.records.changed.listen(() => held || draw());
  app.records.changed.listen(eachFrame(() => held && draw(), 1000));
  return { ...view, show: draw, filter };
}

function client(row) {
  return row.session || row.peer ? called(row) : "";
}
