/**
 * One record of the journal, with every field that it has.
 */

import { fill, h } from "../dom.js";
import { EventStream } from "../event_stream.js";
import { name } from "../names.js";
import { badge, facts, nothing, since } from "../parts.js";
import { gravity, title } from "../words.js";

/** Fields that come first; the others follow as they stand in the journal. */
const FIRST = [
  "seq",
  "time",
  "event",
  "outcome",
  "reason",
  "protocol",
  "session",
  "routing_id",
  "actor",
  "claimed",
  "peer",
  "service",
];

export function recordPanel(app, seq) {
  const number = Number(seq);
  const element = h("div");
  let stream = null;

  function show(record) {
    stop();
    const gone = nothing("Not here any more", "The journal keeps its records only for a while.");
    fill(element, record ? content(app, record) : gone);
  }

  function stop() {
    stream?.stop();
    stream = null;
  }

  /** Only the page's own records are at hand; an older one is the first of a stream that begins before it. */
  function start() {
    const record = app.records.find(number);
    if (record || !Number.isSafeInteger(number) || number < 1) {
      show(record);
      return;
    }
    const parameters = { after: number - 1 };
    const onEvents = ([{ id, event, data }]) => show(id === seq && event !== "skipped" ? JSON.parse(data) : null);
    stream = new EventStream(app.api, "events", { parameters, onEvents });
  }

  return { title: ["Record ", badge(name(seq, 20))], element, start, stop };
}

function content(app, record) {
  const meaning = app.reasons.meaning(record.reason);
  const fields = [
    ...FIRST.filter((field) => field in record),
    ...Object.keys(record).filter((field) => !FIRST.includes(field)),
  ];
  const history = record.session
    ? h(
        "a",
        { class: "button", href: app.router.address(app.router.view, { session: record.session }) },
        "History of the session",
      )
    : null;
  const what = h("p", {}, h("b", {}, title(record)));
  return [
    h("div", { class: `verdict ${gravity(record) || "calm"}` }, what, meaning ? h("p", {}, meaning) : null, history),
    facts(fields.map((field) => [h("code", {}, field), field === "time" ? [value(record.time), " ", since(record.time)] : value(record[field])])),
  ];
}

function value(content) {
  return h("code", {}, name(typeof content === "object" && content !== null ? JSON.stringify(content) : content, 400));
}
