/**
 * What needs a look: what happened since when, how many, from where, what to do, and who took note of it.
 */

import { Changes } from "../changes.js";
import { fill, h, refill } from "../dom.js";
import { eachFrame } from "../frame.js";
import { count } from "../format.js";
import { name } from "../names.js";
import { badge, button, choice, facts, nothing, prose, since } from "../parts.js";
import { frame } from "./frame.js";

const WEIGHTS = { 3: ["Grave", "bad"], 2: ["Serious", "odd"], 1: ["Minor", ""] };

/** The colour of the badge for incidents of this weight: minor ones have none. */
export function colour(weight) {
  return WEIGHTS[weight]?.[1] ?? "";
}

export function incidentsView(app) {
  let which = "open";
  const kind = choice(
    "Which ones",
    [
      ["open", "Need a look"],
      ["all", "All"],
    ],
    which,
    (value) => {
      which = value;
      draw();
    },
  );
  const verdict = h("div", { class: "verdict calm" });
  const list = h("ul", { class: "incidents" });
  const content = h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Incidents" }, verdict, list);
  const view = frame({ title: "Incidents", tools: [kind], content, fixed: true });
  const draw = eachFrame(() => view.element.isConnected && show());

  function show() {
    const { items } = app.incidents.latest;
    const { problem } = app.incidents;
    const open = items.filter((each) => each.needs_look);
    const shown = [...(which === "open" ? open : items)].sort(worstFirst);
    const gravest = Math.max(0, ...open.map((each) => each.weight));
    view.amount(open.length ? count(open.length) : "");
    verdict.className = `verdict ${problem ? "calm" : open.length ? colour(gravest) || "calm" : "good"}`;
    fill(verdict, problem ? nothing("Incidents cannot be shown", problem.message) : h("p", {}, h("b", {}, said(open))));
    refill(list, [shown, app.may("write")], () => shown.map((each) => card(app, each)));
  }

  app.incidents.changed.listen(draw);
  return { ...view, show: draw };
}

function said(open) {
  const going = open.filter((each) => !each.over).length;
  if (open.length === 0) {
    return "Nothing needs a look.";
  }
  const number = open.length === 1 ? "One incident needs a look" : `${count(open.length)} incidents need a look`;
  if (open.length === 1) {
    return `${number}; it ${going ? "goes on" : "is over"}.`;
  }
  return `${number}; ${going === 0 ? "all are over" : going === open.length ? "all go on" : `${count(going)} of them go on`}.`;
}

/** Those that nobody took note of, that go on, the gravest, the latest. */
function worstFirst(one, other) {
  return (
    other.needs_look - one.needs_look ||
    one.over - other.over ||
    other.weight - one.weight ||
    (other.since ?? "").localeCompare(one.since ?? "")
  );
}

function card(app, each) {
  const [weight, kind] = WEIGHTS[each.weight] ?? ["", ""];
  const note = each.needs_look && app.may("write") ? button("Take note…", () => new Changes(app).acknowledge(each)) : null;
  return h(
    "li",
    { class: `card ${each.needs_look ? kind : "noted"}` },
    h("h2", {}, badge(weight, kind), " ", each.title, " ", badge(each.over ? "over" : "goes on")),
    facts([
      ["What", prose(each.what)],
      ["Began", each.since && since(each.since)],
      ["Last", each.until && since(each.until)],
      ["About", each.subject && name(each.subject, 120)],
      ["From", each.address ? name(each.address, 120) : each.sources.length ? name(each.sources.join(", "), 200) : null],
      ["User, proved", each.actor && name(each.actor, 80)],
      ["User, claimed", each.claimed && name(each.claimed, 80)],
      ["What to do", prose(each.next)],
      ["Noted", noted(each)],
    ]),
    h("div", { class: "card-tools" }, record(app, each), note),
  );
}

function noted(each) {
  if (each.noted_by === null) {
    return null;
  }
  const words = each.note ? [": ", name(each.note, 300)] : null;
  return ["by ", name(each.noted_by, 80), ", ", since(each.noted_at), words];
}

function record(app, each) {
  return each.first_seq === null
    ? null
    : h("a", { class: "button quiet", href: app.router.address("incidents", { record: each.first_seq }) }, "First record");
}
