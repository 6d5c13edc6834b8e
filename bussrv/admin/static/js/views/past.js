/**
 * The registry at a moment of the past: who was there, who provided what, and who wanted what.
 */

import { fill, h } from "../dom.js";
import { count, timeOf } from "../format.js";
import { short } from "../names.js";
import { button, choice, filterInput, nothing } from "../parts.js";
import { agoColumn, Table } from "../table.js";
import { called } from "../words.js";
import { frame, matching } from "./frame.js";

const FIELDS = ["id", "routing_id", "actor", "claimed", "peer", "service", "names"];
const KINDS = [
  ["sessions", "Sessions"],
  ["services", "Services"],
  ["subscriptions", "Subscriptions"],
];

export function pastView(app) {
  let text = "";
  let found = null;
  let asked = "";
  let kind = "sessions";
  const when = h("input", {
    "aria-label": "Time in UTC, or number of a record",
    placeholder: "Time in UTC, or record",
    spellcheck: "false",
    autocomplete: "off",
    class: "moment",
  });
  const which = choice("What", KINDS, kind, (value) => {
    kind = value;
    draw();
  });
  const filter = filterInput("Filter the past", (value) => {
    text = value;
    draw();
  });
  const place = h("div", { class: "stack" });
  const form = h("form", { class: "inline" }, when, h("button", { type: "submit" }, "Show"), button("An hour ago", hourAgo, "quiet"));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    ask();
  });
  const view = frame({ title: "Past", tools: [form, which, filter], content: place, fixed: true });
  const tables = Object.fromEntries(KINDS.map(([each, label]) => [each, table(each, label, app)]));
  say(nothing("Which moment?", "Type a time in UTC or the number of a record, and see the registry as it was then."));

  function say(what) {
    fill(place, h("div", { class: "scroll" }, what));
  }

  function hourAgo() {
    when.value = `${new Date(Date.now() - 3600000).toISOString().slice(0, 19)}Z`;
    ask();
  }

  async function ask() {
    say(nothing("Reading the journal…"));
    view.amount("");
    asked = when.value.trim();
    try {
      found = rowsOf(await app.api.get("registry", { parameters: { at: asked } }));
      draw();
    } catch (problem) {
      found = null;
      say(nothing("That moment cannot be shown", problem.message));
    }
  }

  function draw() {
    if (found === null) {
      return;
    }
    const match = matching(text, FIELDS);
    const rows = match ? found[kind].filter(match) : found[kind];
    view.amount(`${count(rows.length)}${rows.length < found[kind].length ? ` of ${count(found[kind].length)}` : ""} at ${said(asked)}`);
    tables[kind].rows = rows;
    if (place.firstChild !== tables[kind].element) {
      fill(place, tables[kind].element);
    }
  }

  return { ...view, show() {}, filter };
}

/** The parts of a snapshot as rows of tables; a row of a service has the sessions that provide it. */
export function rowsOf({ sessions, services, subscriptions }) {
  const provides = new Map();
  for (const [service, providers] of Object.entries(services)) {
    for (const id of providers) {
      provides.set(id, [...(provides.get(id) ?? []), service]);
    }
  }
  const byId = new Map(sessions.map((each) => [each.id, { ...each, provides: provides.get(each.id) }]));
  const nameOf = (id) => called(byId.get(id) ?? { session: id });
  return {
    sessions: [...byId.values()],
    services: Object.entries(services).map(([service, providers]) => ({
      service,
      number: providers.length,
      names: providers.map(nameOf).join(", "),
    })),
    subscriptions: subscriptions.map((each) => ({ ...each, names: nameOf(each.session) })),
  };
}

/** A moment as somebody typed it. */
function said(moment) {
  return moment === "" ? "the end" : /^\d+$/.test(moment) ? `record ${count(Number(moment))}` : moment;
}

const at = (micros) => (Number.isFinite(micros) ? timeOf(micros) : null);

function table(kind, caption, app) {
  const columns = {
    sessions: [
      { label: "Client", least: 16, text: called, sort: called },
      { label: "Format", width: 6, rank: 1, text: (row) => row.protocol ?? "", sort: (row) => row.protocol ?? "" },
      { label: "Address", width: 12.5, rank: 2, mono: true, text: (row) => short(row.peer), sort: (row) => row.peer ?? "" },
      agoColumn("Opened", (row) => at(row.opened), { sort: (row) => row.opened }),
      { label: "Of server", width: 10, rank: 3, text: (row) => short(row.home), sort: (row) => row.home ?? "" },
    ],
    services: [
      { label: "Service", text: (row) => short(row.service), sort: (row) => row.service },
      { label: "Providers", width: 6, end: true, text: (row) => count(row.number), sort: (row) => row.number },
      { label: "Provided by", rank: 1, text: (row) => short(row.names) },
    ],
    subscriptions: [
      { label: "Service", text: (row) => (row.service === null || row.service === undefined ? "objects" : short(row.service)), sort: (row) => row.service ?? "" },
      { label: "Subscriber", text: (row) => short(row.names), sort: (row) => row.names },
      agoColumn("Since", (row) => at(row.added), { sort: (row) => row.added }),
    ],
  }[kind];
  return new Table({
    caption: `${caption} then`,
    key: (row) => (kind === "sessions" ? row.id : kind === "services" ? row.service : `${row.session} ${row.service}`),
    open: (row) => kind !== "services" && app.router.open({ session: row.id ?? row.session }),
    empty: nothing("There was nothing then"),
    columns,
  });
}
