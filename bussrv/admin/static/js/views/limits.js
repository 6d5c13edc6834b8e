/**
 * Limits with how often each was reached, and everything that the server counts.
 */

import { h } from "../dom.js";
import { eachFrame } from "../frame.js";
import { count } from "../format.js";
import { limitsAndCounters, quantity } from "../panels/limit.js";
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
  const open = (row) => app.router.open({ limit: row.name });
  const reached = new Table({
    caption: "Limits",
    key: (row) => row.name,
    sort: "-Reached",
    open,
    empty: nothing("Loading…"),
    columns: [
      {
        label: "Limit",
        mono: true,
        width: 17,
        text: (row) => row.name,
        hover: (row) => `${plain(row.help)}\nDefault: ${quantity(row.default, row.unit)}`,
        sort: (row) => row.name,
      },
      { label: "Meaning", rank: 2, least: 14, text: (row) => plain(row.help), kind: () => "soft" },
      {
        label: "Value",
        width: 6,
        end: true,
        text: (row) => quantity(row.value, row.unit),
        sort: (row) => row.value ?? -1,
        kind: (row) => (row.value === row.default ? "" : "accent"),
      },
      { label: "Default", width: 8, rank: 1, end: true, text: (row) => quantity(row.default, row.unit), kind: () => "soft" },
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
    open,
    empty: nothing("Loading…"),
    columns: [
      {
        label: "Counter",
        mono: true,
        width: 13,
        text: (row) => row.name,
        hover: (row) => plain(app.reasons.meaning(row.name)),
        sort: (row) => row.name,
      },
      { label: "Meaning", rank: 2, text: (row) => plain(app.reasons.meaning(row.name)), kind: () => "soft" },
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
      [limits, counters] = await limitsAndCounters(app.api);
      counted.empty = counters.length ? nothing("Nothing matches") : nothing("Nothing was counted yet");
      reached.empty = nothing("Nothing matches");
      draw();
    },
    PAUSE,
    (error) => {
      reached.empty = nothing("Limits cannot be shown", error.message);
      counted.empty = nothing("Counters cannot be shown", error.message);
    },
  );
  return { ...view, show: () => poll.start(), hide: () => poll.stop(), filter };
}

/** A text in which commands and codes are marked, as a cell shows it. */
function plain(text) {
  return (text ?? "").replaceAll("`", "");
}
