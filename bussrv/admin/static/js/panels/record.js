/**
 * One record of the journal, with every field that it has.
 */

import { h } from "../dom.js";
import { name } from "../names.js";
import { badge, facts, nothing } from "../parts.js";
import { gravity, title } from "../words.js";

/** Fields that come first; the others follow as they stand in the journal. */
const FIRST = ["seq", "time", "event", "outcome", "reason", "protocol", "session", "routing_id", "actor", "claimed", "peer", "service"];

export function recordPanel(app, seq) {
  const number = Number(seq);
  const record = app.records.find(number) ?? app.denied.find(number) ?? app.closed.find(number);
  if (!record) {
    const text = "The page keeps only the latest records. The journal has all of them.";
    return { title: `Record ${number}`, element: nothing("Not here any more", text) };
  }
  const meaning = app.reasons.meaning(record.reason);
  const fields = [...FIRST.filter((field) => field in record), ...Object.keys(record).filter((field) => !FIRST.includes(field))];
  const history = record.session
    ? h("a", { class: "button", href: app.router.address(app.router.view, { session: record.session }) }, "History of the session")
    : null;
  const element = h(
    "div",
    {},
    h("div", { class: `verdict ${gravity(record) || "calm"}` }, h("p", {}, h("b", {}, title(record))), meaning ? h("p", {}, meaning) : null, history),
    facts(fields.map((field) => [h("code", {}, field), value(field, record[field])])),
  );
  return { title: [`Record `, badge(String(number))], element };
}

function value(field, content) {
  return h("code", {}, name(typeof content === "object" && content !== null ? JSON.stringify(content) : content, 400));
}
