/**
 * What an audit says that runs beside the server: both verdicts with their age, findings and incidents.
 */

import { h } from "./dom.js";
import { ago, count, moment } from "./format.js";
import { name } from "./names.js";
import { badge, button, facts, nothing, section, time } from "./parts.js";

/** Whether somebody should look at it. */
export function needsLook(audit) {
  const summary = audit?.summary;
  const isWell = summary && summary.integrity === "intact" && summary.security === "quiet";
  return Boolean(audit) && (!isWell || audit.stale || audit.trouble !== null);
}

const STATES = { running: ["It runs", "accent"], done: ["Done", "good"], failed: ["Failed", "bad"] };

/** The audit that somebody asked for here, and its report to be saved; nothing if nobody did. */
export function askedCard(app, last) {
  if (last.state === "none") {
    return null;
  }
  return [
    h("h2", {}, "Audit that was asked for"),
    facts([
      ["State", badge(...STATES[last.state])],
      ["Begun", time(moment(last.started), last.started)],
      ["Ended", last.ended && time(moment(last.ended), last.ended)],
      ["Why", last.message && name(last.message, 300)],
    ]),
    last.state === "done" ? button("Save the report", () => save(app)) : null,
  ];
}

/** The report is saved and not shown here: it is a page of its own. */
async function save(app) {
  await app.notices.attempt(
    async () => {
      const answer = await app.api.ask("GET", "audit/report");
      const url = URL.createObjectURL(new Blob([await answer.blob()], { type: "application/octet-stream" }));
      h("a", { href: url, download: "bussrv-audit.html" }).click();
      setTimeout(() => URL.revokeObjectURL(url), 60000);
    },
    () => "The report is saved.",
  );
}

/** All that it says; nothing if no audit is named. */
export function auditCard(audit) {
  if (!audit) {
    return null;
  }
  const { summary } = audit;
  const why = audit.trouble && `${audit.file}: ${audit.trouble}`;
  if (!summary) {
    return [h("h2", {}, "Audit"), nothing("There is no audit yet", why)];
  }
  return [
    h("h2", {}, "Audit"),
    facts([
      ["Integrity", integrity(summary)],
      ["Security", security(summary)],
      ["Audited", age(audit)],
      ["Records", count(summary.records)],
      ["Not readable now", why && badge(why, "bad")],
    ]),
    list("Findings", sum(summary.severities), summary.findings, (each) => [each.severity, each.message, place(each)]),
    list("Incidents", sum(summary.incident_kinds), summary.incidents, (each) => [
      each.time && moment(each.time),
      each.message,
      [each.subject, each.user, each.address, each.server].filter(Boolean).join(" · "),
    ]),
  ];
}

function integrity({ integrity: verdict, severities }) {
  return verdict === "intact"
    ? badge("The journal is intact", "good")
    : badge(`${count(severities.error)} errors, ${count(severities.warning)} warnings`, "bad");
}

function security({ security: verdict, incident_kinds: kinds }) {
  return verdict === "quiet"
    ? badge("Nothing needs a look", "good")
    : badge(`${count(sum(kinds))} incidents need a look`, "odd");
}

function age({ stale, summary }) {
  const late = stale ? badge("Stale: the audit has stopped, or fails", "bad") : null;
  return [time(moment(summary.audited), summary.audited), h("span", { class: "soft" }, `, ${ago(summary.audited)} ago `), late];
}

function place(finding) {
  return [finding.server, finding.first_seq && `record ${finding.first_seq}`].filter(Boolean).join(" · ");
}

function sum(numbers) {
  return Object.values(numbers).reduce((all, each) => all + each, 0);
}

/** The worst of them; beyond these, the report of the audit has them all. */
function list(title, total, items, words) {
  if (items.length === 0) {
    return null;
  }
  const lines = items.map((each) => {
    const [first, second, third] = words(each);
    return h("li", {}, h("b", {}, first ?? ""), " ", name(second, 200), " ", h("span", { class: "soft" }, name(third, 120)));
  });
  return section(title, total, h("ul", { class: "found" }, lines));
}
