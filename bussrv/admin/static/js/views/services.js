/**
 * Every service: how many provide it and are subscribed to it, over which formats.
 */

import { eachFrame } from "../frame.js";
import { brief, bytes, count } from "../format.js";
import { calledBy, short, shortened } from "../names.js";
import { filterInput, nothing } from "../parts.js";
import { Poll } from "../poll.js";
import { Table } from "../table.js";
import { frame, matching } from "./frame.js";

const PAUSE = 2000;

export function servicesView(app) {
  let items = null;
  let problem = null;
  let text = "";
  const filter = filterInput("Filter services", (value) => {
    text = value;
    table.toTop();
    draw();
  });
  const table = new Table({
    caption: "Services",
    key: (row) => row.service,
    sort: "Service",
    open: (row) => app.router.open({ service: row.service }),
    empty: nothing("Loading…"),
    columns: [
      { label: "Service", text: (row) => short(row.service), sort: (row) => row.service },
      {
        label: "Providers",
        width: 6.5,
        end: true,
        text: (row) => count(row.provided),
        sort: (row) => row.provided,
        kind: (row) => (row.provided ? "" : "odd"),
      },
      {
        label: "Provided over",
        width: 12,
        rank: 2,
        text: (row) => row.from,
        sort: (row) => row.from,
        kind: () => "soft",
      },
      { label: "Subscribers", width: 7.5, end: true, text: (row) => count(row.wanted), sort: (row) => row.wanted },
      {
        label: "Objects / s",
        width: 7,
        rank: 1,
        end: true,
        text: (row) => (row.objects ? brief(row.objects) : ""),
        sort: (row) => row.objects,
      },
      {
        label: "Bytes / s",
        width: 7,
        rank: 1,
        end: true,
        text: (row) => (row.bytes ? bytes(row.bytes) : ""),
        sort: (row) => row.bytes,
      },
      {
        label: "Subscribed over",
        width: 14,
        rank: 2,
        text: (row) => row.to,
        sort: (row) => row.to,
        kind: () => "soft",
      },
      { label: "Who provides it", rank: 3, text: (row) => row.first },
    ],
  });
  const view = frame({ title: "Services", tools: [filter], content: table.element, fixed: true });
  const draw = eachFrame(show);
  const poll = new Poll(ask, PAUSE, (error) => {
    problem = error;
    draw();
  });

  async function ask() {
    const found = await app.api.all("services");
    const names = new Map(app.sessions.values().map((each) => [each.routing_id, calledBy(each)]));
    items = found.items.map((each) => row(names, each));
    problem = null;
    draw();
  }

  function show() {
    const all = items ?? [];
    const match = matching(text, ["service"]);
    const rows = match ? all.filter(match) : all;
    view.amount(items ? count(rows.length) : "");
    table.empty = problem
      ? nothing("Services cannot be shown", problem.message)
      : items === null
        ? nothing("Loading…")
        : all.length
          ? nothing("Nothing matches", "No service has that text in its name.")
          : nothing("No services", "A service shows up here as soon as a client provides it.");
    table.rows = rows;
  }

  return {
    ...view,
    filter,
    show() {
      draw();
      poll.start();
    },
    hide: () => poll.stop(),
  };
}

function row(names, { service, providers, subscribers, formats, first_providers: first, ...rates }) {
  const { objects_per_second: objects, bytes_per_second: size } = rates;
  return {
    service,
    provided: providers,
    wanted: subscribers,
    objects,
    bytes: size,
    from: formats.providers.join(", "),
    to: formats.subscribers.join(", "),
    first: first.map((each) => short(names.get(each) ?? shortened(each), 60)).join(", ") + (providers > first.length ? ", …" : ""),
  };
}
