/**
 * Whether the journal is well: what it has written, what is sealed, and how long a write takes.
 */

import { askedCard, auditCard } from "../audit.js";
import { Changes } from "../changes.js";
import { Chart } from "../chart.js";
import { fill, h, refill } from "../dom.js";
import { bytes, count, duration, many, seconds } from "../format.js";
import { name } from "../names.js";
import { badge, button, facts, nothing, since } from "../parts.js";
import { Poll } from "../poll.js";
import { frame } from "./frame.js";

const PAUSE = 2000;

export function journalView(app) {
  const verdict = h("div", { class: "verdict calm" });
  const about = h("div", { class: "card" });
  const audit = h("div", { class: "card" });
  const chart = new Chart({
    title: "Time of a journal sync",
    lines: [
      { label: "p99", kind: "main", value: (entry) => entry.sync99 },
      { label: "p50", kind: "other", value: (entry) => entry.sync50 },
    ],
    write: seconds,
    least: 0.001,
    cursor: app.cursor,
  });
  const asked = h("div", { class: "card" });
  const ask = button("Audit now…", () => new Changes(app).audit());
  const seal = button("Seal now…", () => new Changes(app).seal());
  const content = h(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": "Journal and audit" },
    verdict,
    h("div", { class: "cards" }, about, h("div", { class: "card" }, chart.element), audit, asked),
  );
  const view = frame({ title: "Journal", tools: [ask, seal], content, fixed: true });
  const poll = new Poll(
    async () => {
      const journal = await app.api.get("journal");
      fill(verdict, words(journal));
      verdict.className = `verdict ${journal.degraded ? "bad" : "good"}`;
      fill(about, details(journal));
      fill(audit, auditCard(journal.audit));
      const last = await app.api.get("audit");
      refill(asked, last, () => askedCard(app, last));
    },
    PAUSE,
    (error) => {
      verdict.className = "verdict calm";
      fill(verdict, nothing("The journal cannot be shown", error.message));
      fill(about);
      fill(audit);
    },
  );
  const draw = () => chart.show(app.figures.shown(app.range.span));
  app.figures.changed.listen(() => view.element.isConnected && draw());
  return {
    ...view,
    show() {
      seal.hidden = ask.hidden = !app.may("write");
      draw();
      poll.start();
    },
    hide: () => poll.stop(),
  };
}

function words(journal) {
  if (journal.degraded) {
    const text =
      typeof journal.degraded === "string" ? journal.degraded : "Changes are refused until it can be written again.";
    return h("p", {}, h("b", {}, "The journal cannot be written. "), name(text, 400));
  }
  const wait = journal.oldest_wait ? ` The oldest write has waited ${seconds(journal.oldest_wait)}.` : "";
  return h(
    "p",
    {},
    h("b", {}, "The journal is written. "),
    `Its last record is ${count(journal.head?.seq ?? journal.seq)}.${wait}`,
  );
}

function details(journal) {
  const { head, last_seal: seal } = journal;
  const unsealed = head && seal ? head.seq - seal.seq : null;
  return facts([
    ["Directory", h("code", {}, name(journal.directory))],
    ["Last record", count(head?.seq ?? journal.seq)],
    [
      "Last seal",
      seal
        ? since(seal.time)
        : badge("none yet", "odd"),
    ],
    ["Not sealed yet", unsealed === null ? null : many(unsealed, "record")],
    ["Segments", count(journal.segments)],
    ["Size", bytes(journal.bytes)],
    ["Free disk", bytes(journal.free_bytes)],
    ["Sync", journal.sync],
    ["Oldest wait", journal.oldest_wait === undefined ? null : duration(journal.oldest_wait)],
    ["Written to segment", head ? count(head.segment) : null],
    ["Hash of the last record", head?.hash ? h("code", { class: "hash" }, head.hash) : null],
    ["Hash of the last seal", seal?.hash ? h("code", { class: "hash" }, seal.hash) : null],
  ]);
}
