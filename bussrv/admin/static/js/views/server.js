/**
 * The server itself: what it runs on, where it listens, its checks, and what an operator can have it do.
 */

import { Changes } from "../changes.js";
import { fill, h } from "../dom.js";
import { eachFrame } from "../frame.js";
import { ago, moment } from "../format.js";
import { name } from "../names.js";
import { badge, button, choice, facts, nothing, time } from "../parts.js";
import { frame } from "./frame.js";

const STATUS = { ok: ["good", "✓"], degraded: ["odd", "!"], failed: ["bad", "✕"] };
const LEVELS = ["debug", "info", "warn", "error"];

export function serverView(app) {
  const about = h("div", { class: "card" });
  const checks = h("div", { class: "card" });
  const control = h("div", { class: "card" });
  const content = h("div", { class: "scroll" }, h("div", { class: "cards" }, about, checks, control));
  const view = frame({ title: "Server", content, fixed: true });
  let shown = "";
  const draw = eachFrame(() => {
    const server = app.server.latest;
    if (!server || !view.element.isConnected) {
      return;
    }
    fill(about, h("h2", {}, "This server"), details(server));
    fill(checks, h("h2", {}, "Checks"), list(app.health));
    // Made anew only if it changed: a choice that somebody is making must not go away under the hand.
    const now = JSON.stringify([server.log_level, server.draining, app.may("write")]);
    if (now !== shown) {
      shown = now;
      fill(control, h("h2", {}, "Control"), controls(app, server));
    }
  });
  app.server.changed.listen(draw);
  app.health.changed.listen(draw);
  return { ...view, show: draw };
}

function details(server) {
  const formats = Object.entries(server.formats ?? {});
  return facts([
    ["Name", name(server.server)],
    ["Version", server.version],
    [
      "Started",
      [time(moment(server.started), server.started), h("span", { class: "soft" }, `, ${ago(server.started)} ago`)],
    ],
    ["Formats", formats.map(([format, address]) => h("div", {}, badge(format), " ", h("code", {}, name(address))))],
    ["Identity", server.identity ? badge("on", "good") : badge("off", "odd")],
    ["Policy", server.policy ? badge("on", "good") : badge("off", "odd")],
    ["Boot", h("code", {}, server.boot)],
    ["Python", server.python],
    ["Twisted", server.twisted],
    ["You", server.actor ? name(server.actor) : "not signed in"],
  ]);
}

function list(health) {
  if (health.checks.length === 0) {
    return health.state === null ? nothing("Not known") : nothing("Ready");
  }
  return h("ul", { class: "checks" }, health.checks.map(line));
}

function line({ name: check, status, message }) {
  const [kind, sign] = STATUS[status] ?? STATUS.failed;
  const text = h("span", { class: "soft" }, name(message || "well", 300));
  return h("li", { class: kind }, h("span", { "aria-hidden": "true" }, sign), h("b", {}, check), text);
}

function controls(app, server) {
  if (!app.may("write")) {
    return [
      h(
        "p",
        { class: "soft" },
        "You may look, and change nothing. Whoever may is offered to reload, seal, drain, and set the log level here.",
      ),
      button("Sign in…", () => app.signInForMore()),
    ];
  }
  const changes = new Changes(app);
  const level = choice(
    "Log level",
    LEVELS.map((each) => [each, each]),
    server.log_level.split(",")[0],
    () => {},
  );
  const part = h("input", { "aria-label": "Part", placeholder: "all parts", autocomplete: "off", spellcheck: "false" });
  return [
    action(
      "Reload",
      "Read configuration, users and policy again.",
      button("Reload…", () => changes.reload()),
    ),
    action(
      "Seal",
      "Seal everything that is written so far.",
      button("Seal now…", () => changes.seal()),
    ),
    action(
      "Log level",
      `Now ${server.log_level}.`,
      h(
        "span",
        { class: "set" },
        level,
        part,
        button("Set…", () => changes.logLevel(level.value, part.value)),
      ),
    ),
    action(
      "Drain",
      server.draining ? "It is draining." : "Take no new clients, then stop.",
      button("Drain…", () => changes.drain(), "grave"),
    ),
  ];
}

function action(title, text, control) {
  return h("div", { class: "action" }, h("div", {}, h("b", {}, title), h("p", { class: "soft" }, text)), control);
}
