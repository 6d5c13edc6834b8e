/**
 * Every service: how many provide it and are subscribed to it, over which formats. Long lists are folded.
 */

import { eachFrame } from "../frame.js";
import { brief, bytes, count, many } from "../format.js";
import { folded, grouped } from "../folding.js";
import { calledBy, short, shortened } from "../names.js";
import { choice, filterInput, nothing } from "../parts.js";
import { Poll } from "../poll.js";
import { Table } from "../table.js";
import { frame, matching } from "./frame.js";

const PAUSE = 2000;
/** More services than these are folded, unless somebody wants to see each one. */
const FEW = 50;
const SEVERAL = "several";
const NOBODY = "nobody";

/** How the rows are grouped; by their names, groups have groups. */
const WAYS = {
  "": ["Each one", (rows) => rows],
  name: ["By name", (rows) => folded(rows, (row) => row.service, prefixed)],
  format: ["By format", (rows) => grouped(rows, (row) => row.from || NOBODY, summed)],
  provider: ["By provider", (rows) => grouped(rows, (row) => row.provider, summed)],
};

export function servicesView(app) {
  let items = null;
  let total = 0;
  let problem = null;
  let text = "";
  /** How somebody wants them grouped; `null`: nobody has said. */
  let way = null;
  const opened = new Set();
  const filter = filterInput("Filter services", (value) => {
    text = value;
    table.toTop();
    draw();
  });
  const ways = choice(
    "Grouped",
    Object.entries(WAYS).map(([name, [label]]) => [name, label]),
    "",
    (value) => {
      way = value;
      table.toTop();
      draw();
    },
  );
  const table = new Table({
    caption: "Services",
    key: (row) => row.key,
    sort: "Service",
    open,
    children: (row) => (opened.has(row.key) ? row.inside?.() : row.inside && []),
    empty: nothing("Loading…"),
    kind: (row) => (row.inside ? "group" : ""),
    columns: [
      { label: "Service", least: 16, text: label, sort: (row) => row.service },
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
      { label: "Subscribers", width: 7.5, rank: 1, end: true, text: (row) => count(row.wanted), sort: (row) => row.wanted },
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
  const view = frame({ title: "Services", tools: [ways, filter], content: table.element, fixed: true });
  const draw = eachFrame(show);
  const poll = new Poll(ask, PAUSE, (error) => {
    problem = error;
    draw();
  });

  async function ask() {
    const isFirst = items === null;
    const names = new Map(app.sessions.values().map((each) => [each.routing_id, calledBy(each)]));
    const found = [];
    const onPage = (page) => {
      found.push(...page.items.map((each) => row(names, each)));
      if (isFirst) {
        // Thousands take a while: what is there is shown.
        [items, total, problem] = [found, page.total, null];
        draw();
      }
    };
    await app.api.all("services", { onPage });
    [items, total, problem] = [found, found.length, null];
    draw();
  }

  function open(row) {
    if (!row.inside) {
      app.router.open({ service: row.service });
      return;
    }
    if (!opened.delete(row.key)) {
      opened.add(row.key);
    }
    draw();
  }


  function show() {
    const all = items ?? [];
    const match = matching(text, ["service"]);
    const rows = match ? all.filter(match) : all;
    const wanted = way ?? (items === null || total > FEW ? "name" : "");
    ways.value = wanted;
    view.amount(items ? amountOf(rows, all, total) : "");
    table.empty = problem
      ? nothing("Services cannot be shown", problem.message)
      : items === null
        ? nothing("Loading…")
        : all.length
          ? nothing("Nothing matches", "No service has that text in its name.")
          : nothing("No services", "A service shows up here as soon as a client provides it.");
    // Who looks for a name wants to see it.
    table.rows = match && way === null ? rows : WAYS[wanted][1](rows);
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

/** How many are shown; all: how many there are, and how many names have subscribers only. */
function amountOf(rows, all, total) {
  if (all.length < total) {
    return `Loading… ${count(all.length)} of ${count(total)}`;
  }
  if (rows.length < all.length) {
    return `${count(rows.length)} of ${count(all.length)}`;
  }
  const provided = all.filter((row) => row.provided).length;
  return [count(provided), provided < all.length && `and ${many(all.length - provided, "name")} that nobody provides`]
    .filter(Boolean)
    .join(", ");
}

/** What a service, or a group, is called; what is in a group is further right. */
function label(row) {
  const indent = "\u2003".repeat(row.depth);
  return row.inside
    ? `${indent}${row.isOpen ? "▾" : "▸"} ${short(row.title)} (${many(row.number, row.provided ? "service" : "name")})`
    : `${indent}${short(row.service)}`;
}

/** The row of a group. */
function summed(key, rows) {
  const add = (field) => rows.reduce((sum, each) => sum + each[field], 0);
  const joined = (field) => [...new Set(rows.flatMap((each) => each[field].split(", ")))].filter(Boolean).sort().join(", ");
  return {
    key: `group ${key}`,
    title: key,
    service: key,
    number: rows.length,
    provided: add("provided"),
    wanted: add("wanted"),
    objects: add("objects"),
    bytes: add("bytes"),
    from: joined("from"),
    to: joined("to"),
    first: "",
    inside: () => rows,
  };
}

function prefixed(prefix, rows) {
  return { ...summed(prefix, rows), title: `${prefix}*` };
}

function row(names, { service, providers, subscribers, formats, first_providers: first, ...rates }) {
  const { objects_per_second: objects, bytes_per_second: size } = rates;
  const called = first.map((each) => short(names.get(each) ?? shortened(each), 60));
  return {
    key: service,
    service,
    provided: providers,
    wanted: subscribers,
    objects,
    bytes: size,
    from: formats.providers.join(", "),
    to: formats.subscribers.join(", "),
    provider: providers > 1 ? SEVERAL : (called[0] ?? NOBODY),
    first: called.join(", ") + (providers > first.length ? ", …" : ""),
  };
}
