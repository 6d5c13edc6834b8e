/**
 * The traffic of one session or service over time, as far as it was among the busiest.
 */

import { Chart, Cursor } from "./chart.js";
import { h } from "./dom.js";
import { bytes } from "./format.js";
import { entriesOf, marksOf } from "./history.js";
import { section } from "./parts.js";
import { Poll } from "./poll.js";

const PAUSE = 10000;
/** As far back as there is an interval for every ten seconds. */
const SPAN = 600;

/** What the lines of each kind are: of a session there are two directions. */
const LINES = {
  session: [
    { label: "out", kind: "main", value: (entry) => entry.bytes_out },
    { label: "in", kind: "other", value: (entry) => entry.bytes_in },
  ],
  service: [{ label: "published", kind: "main", value: (entry) => entry.bytes }],
};
const NAMES = { bytes: "bytes", bytes_in: "bytes_in", bytes_out: "bytes_out" };

/**
 * A section with a chart of the last minutes; it is hidden as long as there was no traffic worth a place among the busiest.
 *
 * @param {string} kind `session` or `service`.
 * @param {string} id which one.
 */
export function trafficSection(app, kind, id) {
  // A cursor of its own: the chart is gone with the panel.
  const cursor = new Cursor();
  const chart = new Chart({ title: "Bytes / s", lines: LINES[kind], write: bytes, least: 1024, base: 2, cursor });
  const element = section("Last 10 minutes", null, h("div", { class: "card" }, chart.element));
  element.hidden = true;
  const poll = new Poll(async () => {
    const found = await app.api.get("history", { parameters: { since: -SPAN, [kind]: id } });
    const entries = entriesOf(found, NAMES);
    const until = Date.parse(found.until);
    element.hidden = !entries.some((entry) => LINES[kind].some((line) => line.value(entry) > 0));
    chart.show({ entries, marks: marksOf(found), from: until - SPAN * 1000, until, isLive: true });
  }, PAUSE);
  return { element, start: () => poll.start(), stop: () => poll.stop() };
}
