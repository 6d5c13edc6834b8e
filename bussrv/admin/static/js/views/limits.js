/**
 * Limits with how often each was reached, and everything that the server counts.
 */

import { h } from "../dom.js";
import { eachFrame } from "../frame.js";
import { bytes, count, duration } from "../format.js";
import { filterInput, nothing } from "../parts.js";
import { Poll } from "../poll.js";
import { Table } from "../table.js";
import { frame, matching } from "./frame.js";

const PAUSE = 2000;

export function limitsView(app) {
  let limits = [];
  let counters = [];
  let text = "";
  const filter = filterInput("Filter limits and counters", (value) => {
    text = value;
    draw();
  });
  const reached = new Table({
    caption: "Limits",
    key: (row) => row.name,
    sort: "-Reached",
    empty: nothing("Loading…"),
    columns: [
      {
        label: "Limit",
        mono: true,
        width: 17,
        text: (row) => row.name,
        hover: (row) => `${row.help ?? ""}\nDefault: ${written(row.default, row.unit)}`,
        sort: (row) => row.name,
      },
      { label: "Meaning", rank: 2, least: 14, text: (row) => row.help ?? "", kind: () => "soft" },
      {
        label: "Value",
        width: 6,
        end: true,
        text: (row) => written(row.value, row.unit),
        sort: (row) => row.value ?? -1,
        kind: (row) => (row.value === row.default ? "" : "accent"),
      },
      { label: "Default", width: 8, rank: 1, end: true, text: (row) => written(row.default, row.unit), kind: () => "soft" },
      {
        label: "Reached",
        width: 7.75,
        end: true,
        text: (row) => count(row.count ?? 0),
        sort: (row) => row.count ?? 0,
        kind: (row) => (row.count ? "odd" : "soft"),
      },
    ],
  });
  const counted = new Table({
    caption: "Counters",
    key: (row) => row.name,
    sort: "-Count",
    empty: nothing("Nothing was counted yet"),
    columns: [
      {
        label: "Counter",
        mono: true,
        width: 13,
        text: (row) => row.name,
        hover: (row) => app.reasons.meaning(row.name),
        sort: (row) => row.name,
      },
      { label: "Meaning", rank: 2, text: (row) => app.reasons.meaning(row.name), kind: () => "soft" },
      { label: "Count", width: 7, end: true, text: (row) => count(row.count), sort: (row) => row.count },
    ],
  });
  const view = frame({
    title: "Limits and counters",
    tools: [filter],
    content: h("div", { class: "two" }, reached.element, counted.element),
    fixed: true,
  });
  const draw = eachFrame(() => {
    const match = matching(text, ["name"]) ?? (() => true);
    reached.rows = limits.filter(match);
    counted.rows = counters.filter(match);
  });
  const poll = new Poll(
    async () => {
      const [one, other] = await Promise.all([app.api.all("limits"), app.api.get("counters")]);
      limits = one.items;
      counters = Object.entries(other.counters ?? {}).map(([name, number]) => ({ name, count: number }));
      draw();
    },
    PAUSE,
    (error) => {
      reached.empty = nothing("Limits cannot be shown", error.message);
    },
  );
  return { ...view, show: () => poll.start(), hide: () => poll.stop(), filter };
}

/** A value with its unit. */
function written(value, unit) {
  if (typeof value !== "number") {
    return String(value ?? "–");
  }
  return unit === "bytes" ? bytes(value) : unit === "seconds" ? duration(value) : count(value);
}
