/**
 * One limit or counter: everything that its row has no room for.
 */

import { fill, h } from "../dom.js";
import { bytes, count, duration } from "../format.js";
import { name } from "../names.js";
import { facts, nothing, prose } from "../parts.js";
import { Poll } from "../poll.js";

const PAUSE = 2000;
/** Longer than any help text. */
const MOST = 4000;

/** A value with its unit. */
export function quantity(value, unit) {
  if (typeof value !== "number") {
    return String(value ?? "–");
  }
  return unit === "bytes" ? bytes(value) : unit === "seconds" ? duration(value) : count(value);
}

/** Every limit, and everything that is counted. */
export async function limitsAndCounters(api) {
  const [limits, { counters }] = await Promise.all([api.all("limits"), api.get("counters")]);
  return [limits.items, Object.entries(counters ?? {}).map(([each, number]) => ({ name: each, count: number }))];
}

export function limitPanel(app, wanted) {
  const element = h("div", {}, nothing("Loading…"));
  const poll = new Poll(
    async () => {
      const [limit, counter] = (await limitsAndCounters(app.api)).map((all) => all.find((each) => each.name === wanted));
      fill(element, limit || counter ? content(app, wanted, limit, counter) : nothing("There is no such limit or counter"));
    },
    PAUSE,
    (error) => fill(element, nothing("It cannot be shown", error.message)),
  );
  return { title: name(wanted, 60), element, start: () => poll.start(), stop: () => poll.stop() };
}

function content(app, wanted, limit, counter) {
  const meaning = app.reasons.meaning(wanted);
  return [
    limit ? h("p", {}, prose(limit.help ?? "", MOST)) : null,
    counter && meaning ? h("p", {}, prose(`${meaning[0].toUpperCase()}${meaning.slice(1)}.`, MOST)) : null,
    facts([
      ["Option", limit ? h("code", {}, `--${wanted}`) : null],
      ["Value", limit && quantity(limit.value, limit.unit)],
      ["Default", limit && quantity(limit.default, limit.unit)],
      ["Reached", limit && count(limit.count ?? 0)],
      ["Counted", counter && count(counter.count)],
    ]),
  ];
}
