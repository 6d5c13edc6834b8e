/**
 * Every session that is present, on every format.
 */

import { eachFrame } from "../frame.js";
import { count, dateAndZone } from "../format.js";
import { provided, short, shortened } from "../names.js";
import { choice, filterInput, nothing } from "../parts.js";
import { Table } from "../table.js";
import { called, presence } from "../words.js";
import { frame, matching } from "./frame.js";

const FIELDS = ["state"];
/** Milliseconds between two looks at a list that changes all the time. */
const CALM = 400;

export function sessionsView(app) {
  let text = "";
  let protocol = "";
  const filter = filterInput("Filter sessions", (value) => {
    text = value;
    table.toTop();
    draw();
  });
  const protocols = choice("Format", [["", "All formats"]], "", (value) => {
    protocol = value;
    table.toTop();
    draw();
  });
  const table = new Table({
    caption: "Sessions",
    key: (row) => row.session,
    sort: "-Open for",
    open: (row) => app.router.open({ session: row.session }),
    empty: nothing("No sessions", "Clients show up here as they connect."),
    columns: [
      { label: "Client", least: 20, text: called, sort: called },
      { label: "Format", width: 6, rank: 1, text: (row) => row.protocol, sort: (row) => row.protocol },
      { label: "Address", width: 12.5, rank: 1, mono: true, text: (row) => short(row.peer), sort: (row) => row.peer },
      {
        label: "Services",
        least: 11,
        rank: 2,
        text: servicesOf,
        sort: (row) => row.services,
      },
      {
        label: "Subscribed",
        width: 7,
        rank: 2,
        end: true,
        text: (row) => some(row.subscriptions),
        sort: (row) => row.subscriptions,
      },
      {
        label: "Open for",
        width: 8,
        end: true,
        text: presence,
        sort: (row) => -Date.parse(row.opened),
        kind: (row) => (row.state === "away" ? "odd" : ""),
        hover: (row) => dateAndZone(row.away_since ?? row.opened),
      },
      {
        label: "Server",
        width: 9,
        rank: 4,
        text: (row) => short(row.home) || "this one",
        kind: (row) => (row.home ? "" : "soft"),
      },
      { label: "Session", width: 12, rank: 3, mono: true, text: (row) => row.session, kind: () => "soft" },
      {
        label: "Routing id",
        width: 9,
        rank: 4,
        mono: true,
        text: (row) => short(shortened(row.routing_id ?? "")),
        hover: (row) => row.routing_id,
        kind: () => "soft",
      },
    ],
  });
  const view = frame({ title: "Sessions", tools: [protocols, filter], content: table.element, fixed: true });
  const draw = eachFrame(show, CALM);

  function show() {
    if (!view.element.isConnected) {
      return;
    }
    const all = app.sessions.loaded ? app.sessions.values() : [];
    offer(protocols, all);
    const match = matching(text, FIELDS);
    const rows = all.filter((row) => (!protocol || row.protocol === protocol) && (!match || match(row)));
    view.amount(all.length ? amountOf(rows, all.length, app.sessions.left) : "");
    table.empty = emptiness(app, all);
    table.rows = rows;
  }

  app.sessions.changed.listen(draw);
  return { ...view, show: draw, tick: () => table.draw(), filter };
}

/** How many are shown. Those that are here are as many as everywhere else. */
function amountOf(rows, all, left) {
  const away = rows.filter((row) => row.state === "away").length;
  const remote = rows.filter((row) => row.home).length;
  const more = left ? `, the first of ${count(all + left)}` : "";
  const kinds = [
    [rows.length - away - remote, "here"],
    [away, "away"],
    [remote, "of other servers"],
  ].filter(([number]) => number > 0);
  const shown = rows.length < all ? `${count(rows.length)} of ${count(all)}` : `${count(rows.length)}${more}`;
  const split = kinds.map(([number, kind]) => `${count(number)} ${kind}`).join(", ");
  if (away + remote === 0) {
    return shown;
  }
  return rows.length < all || left ? `${shown}: ${split}` : split;
}

/** The first service, and how many more there are. */
function servicesOf(row) {
  const [first] = provided(row);
  return first && row.services > 1 ? `${short(first, 40)} +${count(row.services - 1)}` : short(first ?? "");
}

function some(number) {
  return number ? count(number) : "";
}

function offer(select, sessions) {
  const protocols = [...new Set(sessions.map((each) => each.protocol))].sort();
  const known = [...select.options].slice(1).map((each) => each.value);
  for (const each of protocols.filter((protocol) => !known.includes(protocol))) {
    select.add(new Option(each, each));
  }
}

function emptiness(app, all) {
  if (app.sessions.problem) {
    return nothing("Sessions cannot be shown", app.sessions.problem.message);
  }
  if (!app.sessions.loaded) {
    return nothing("Loading…");
  }
  return all.length
    ? nothing("Nothing matches", "No session has that text.")
    : nothing("No sessions", "Clients show up here as they connect.");
}
