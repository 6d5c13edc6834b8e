/**
 * All servers at once: a picture of their links, and a table with the health and the traffic of each.
 */

import { h } from "../dom.js";
import { eachFrame } from "../frame.js";
import { ago, brief, bytes, count, dateAndZone, many, seconds } from "../format.js";
import { Graph } from "../graph.js";
import { short } from "../names.js";
import { nothing } from "../parts.js";
import { Table } from "../table.js";
import { frame } from "./frame.js";

const KINDS = { ready: "good", degraded: "odd", "not-ready": "bad", unreachable: "bad", "not-asked": "soft" };
const SOURCES = { here: "this server", peer: "asked", link: "linked" };
/** A clock that is off by more seconds than this, and by more than can be measured, is odd. */
const OFF = 1;

const known = (value, write) => (value === null || value === undefined ? "–" : write(value));
const number = (label, field, write, more = {}) => ({
  label,
  width: 6.5,
  end: true,
  text: (row) => known(row[field], write),
  sort: (row) => row[field] ?? -1,
  ...more,
});

export function serversView(app) {
  const graph = new Graph();
  const table = new Table({
    caption: "Servers",
    key: (row) => row.server ?? row.url,
    sort: "Server",
    open: (row) => row.source !== "here" && row.server && app.router.open({ link: row.server }),
    empty: nothing("Loading…"),
    columns: [
      { label: "Server", text: (row) => short(row.server ?? row.url), sort: (row) => row.server ?? row.url },
      { label: "Status", text: status, hover: asked, sort: (row) => row.status, kind: (row) => KINDS[row.status] },
      { label: "Known as", width: 7, rank: 4, text: (row) => SOURCES[row.source], kind: () => "soft" },
      { label: "Version", width: 5.5, rank: 3, text: (row) => known(row.version, String) },
      { label: "Up for", width: 7, rank: 3, end: true, text: (row) => known(row.started, ago), hover: (row) => (row.started ? dateAndZone(row.started) : "") },
      number("Sessions", "sessions", count),
      number("Objects in / s", "objects_in", brief, { width: 7.5, rank: 1 }),
      number("Objects out / s", "objects_out", brief, { width: 8, rank: 1 }),
      number("Waiting", "waiting_bytes", bytes, { rank: 2 }),
      number("Lost", "lost_objects", count, { width: 5, rank: 2, kind: (row) => (row.lost_objects ? "odd" : "") }),
      number("Clock", "clock_ahead", ahead, { rank: 2, kind: (row) => (isOff(row) ? "odd" : "") }),
      number("Answer", "round_trip", seconds, { rank: 3 }),
    ],
  });
  const picture = h("div", { class: "picture" }, graph.element);
  const view = frame({
    title: "Servers",
    content: h("div", { class: "graph-and-table" }, picture, table.element),
    fixed: true,
  });
  const draw = eachFrame(() => {
    const { latest, problem } = app.net;
    if (problem) {
      table.empty = nothing("The servers cannot be shown", problem.message);
    }
    if (latest && view.element.isConnected) {
      picture.hidden = latest.servers.length < 2;
      graph.show(latest, (server) => app.router.open({ link: server }));
      table.rows = latest.servers;
      view.amount(words(latest));
    }
  });
  app.net.changed.listen(draw);
  return {
    ...view,
    show() {
      app.net.again();
      draw();
    },
    tick: () => table.draw(),
  };
}

function words({ servers, links, sessions }) {
  const bad = servers.filter(({ status: each }) => ["not-ready", "unreachable"].includes(each)).length;
  const down = links.filter(({ state }) => state === "down").length;
  return [
    `${many(servers.length, "server")}, ${many(sessions, "session")} of clients`,
    bad ? `${count(bad)} not well` : "",
    down ? `${many(down, "link")} down` : "",
  ]
    .filter(Boolean)
    .join(" · ");
}

function status(row) {
  const why = row.problem ?? (row.degraded ?? []).join(", ");
  return `${row.status.replace("-", " ")}${why ? `: ${short(why, 120)}` : ""}`;
}

/** Why nothing else is known of a server. */
function asked(row) {
  return row.status === "not-asked" ? "Known from links only. The option --admin-peer names its admin interface." : "";
}

function ahead(value) {
  return `${value < 0 ? "−" : "+"}${seconds(Math.abs(value))}`;
}

function isOff({ clock_ahead: value, round_trip: trip }) {
  return Math.abs(value ?? 0) > Math.max(OFF, trip ?? 0);
}
