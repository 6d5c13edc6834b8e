/**
 * Links to other servers: a picture, and the same as a table.
 */

import { h } from "../dom.js";
import { eachFrame } from "../frame.js";
import { ago, bytes, count, dateAndZone, seconds } from "../format.js";
import { Graph } from "../graph.js";
import { short } from "../names.js";
import { nothing } from "../parts.js";
import { own, STATES, why } from "../panels/link.js";
import { Table } from "../table.js";
import { frame } from "./frame.js";

const begun = (row) => row.since ?? row.lost;

const dialedBy = (row) => (row.dialed ? "this server" : row.address ? "the other" : "–");

export function linksView(app) {
  const graph = new Graph();
  const opened = (link) => ({ link: link.routing_id ?? link.address });
  const table = new Table({
    caption: "Links",
    key: (row) => row.routing_id ?? row.address,
    open: (row) => app.router.open(opened(row)),
    empty: nothing("No links", "This server stands alone. The option --link connects it with others."),
    columns: [
      { label: "Server", text: (row) => short(row.routing_id) || "not known yet", sort: (row) => row.routing_id ?? "" },
      {
        label: "State",
        width: 5.5,
        text: (row) => row.state,
        sort: (row) => row.state,
        kind: (row) => STATES[row.state],
      },
      {
        label: "Address",
        width: 14,
        rank: 1,
        mono: true,
        text: (row) => short(row.address),
        sort: (row) => row.address,
      },
      { label: "Why", width: 12, rank: 2, text: (row) => why(row) ?? "" },
      { label: "Dialed by", width: 9, rank: 3, text: dialedBy },
      {
        label: "For",
        width: 7,
        end: true,
        text: (row) => (begun(row) ? ago(begun(row)) : "–"),
        hover: (row) => (begun(row) ? dateAndZone(begun(row)) : ""),
        sort: (row) => -Date.parse(begun(row)),
      },
      {
        label: "Sessions",
        width: 6.5,
        rank: 1,
        end: true,
        text: (row) => count(own(app, row)),
        sort: (row) => own(app, row),
      },
      {
        label: "Waiting",
        width: 6,
        rank: 3,
        end: true,
        text: (row) => bytes(row.waiting_bytes ?? NaN),
        sort: (row) => row.waiting_bytes ?? -1,
      },
      {
        label: "Round trip",
        width: 7,
        rank: 3,
        end: true,
        text: (row) => seconds(row.round_trip ?? NaN),
        sort: (row) => row.round_trip ?? -1,
      },
      {
        label: "Its neighbours",
        rank: 3,
        text: (row) => (row.neighbors ?? []).map((each) => short(each, 40)).join(", "),
      },
    ],
  });
  const picture = h("div", { class: "picture" }, graph.element);
  const view = frame({
    title: "Links",
    content: h("div", { class: "graph-and-table" }, picture, table.element),
    fixed: true,
  });
  const draw = eachFrame(show);

  function show() {
    const { items, problem } = app.links;
    picture.hidden = items.length === 0;
    view.amount(
      items.length ? `${items.filter((each) => each.state === "up").length} of ${count(items.length)} up` : "",
    );
    graph.show(netOf(app), (server) => app.router.open({ link: server }));
    if (problem) {
      table.empty = nothing("Links cannot be shown", problem.message);
    }
    table.rows = items;
  }

  app.links.changed.listen(draw);
  app.net.changed.listen(draw);
  return { ...view, show: draw, tick: () => table.draw() };
}

/** All servers and links; a link that is dialed, and has not been answered yet, leads to its address. */
function netOf(app) {
  const here = app.server.latest?.server ?? "this server";
  const { servers, links } = app.net.latest ?? { servers: [], links: [] };
  const dialed = app.links.items.filter(({ routing_id: id }) => id === null).map(({ address }) => address);
  return {
    here,
    servers: [...servers, ...dialed.map((address) => ({ server: address, status: "dialing" }))],
    links: [...links, ...dialed.map((address) => ({ one: here, other: address, state: "dialing" }))],
  };
}
