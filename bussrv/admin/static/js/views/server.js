/**
 * The server itself: what it runs on, where it listens, its checks, and what an operator can have it do.
 */

import { Changes } from "../changes.js";
import { fill, h, refill } from "../dom.js";
import { eachFrame } from "../frame.js";
import { bytes, count, duration, many } from "../format.js";
import { name, natural } from "../names.js";
import { badge, button, choice, facts, nothing, prose, since } from "../parts.js";
import { frame } from "./frame.js";

const STATUS = { ok: ["good", "✓"], degraded: ["odd", "!"], failed: ["bad", "✕"] };
/** A certificate that is valid for fewer days is worth a look. */
const SOON = 14;
const LEVELS = ["debug", "info", "warn", "error"];

export function serverView(app) {
  const about = h("div", { class: "card" });
  const checks = h("div", { class: "card" });
  const control = h("div", { class: "card" });
  const use = h("div", { class: "card" });
  const certificates = h("div", { class: "card" });
  const configuration = h("div", { class: "card options" });
  const cards = [about, checks, use, control, certificates, configuration];
  const content = h("div", { class: "scroll" }, h("div", { class: "cards" }, cards));
  const view = frame({ title: "Server", content, fixed: true });
  let shown = "";
  const draw = eachFrame(() => {
    const server = app.server.latest;
    if (!server || !view.element.isConnected) {
      return;
    }
    fill(about, h("h2", {}, "This server"), details(server));
    fill(checks, h("h2", {}, "Checks"), list(app.health));
    fill(certificates, h("h2", {}, "Certificates"), expiring(server.certificates ?? []));
    refill(configuration, server.configuration, () => [h("h2", {}, "Configuration"), configured(server.configuration)]);
    // Made anew only if it changed: a choice that somebody is making must not go away under the hand.
    const now = JSON.stringify([server.log_level, server.draining, app.may("write")]);
    if (now !== shown) {
      shown = now;
      fill(control, h("h2", {}, "Control"), controls(app, server));
    }
  });
  const drawUse = eachFrame(() => view.element.isConnected && fill(use, h("h2", {}, "Use"), used(app.figures)));
  app.figures.changed.listen(drawUse);
  app.server.changed.listen(draw);
  app.health.changed.listen(draw);
  return {
    ...view,
    show() {
      draw();
      drawUse();
    },
  };
}

/** What the process takes of the machine. */
function used(figures) {
  const latest = figures.latest ?? {};
  const share = figures.lately("cpu") * 100;
  return facts([
    ["Memory", bytes(latest.memory_bytes ?? NaN)],
    ["CPU", Number.isFinite(share) ? `${share.toFixed(share < 10 ? 1 : 0)} % of one core` : "–"],
    ["CPU time", duration(latest.cpu_seconds ?? NaN)],
    ["Open descriptors", count(latest.descriptors ?? NaN)],
    ["Waiting for clients", bytes(latest.waiting_bytes ?? NaN)],
    ["Last record", count(latest.seq)],
  ]);
}

function expiring(certificates) {
  if (certificates.length === 0) {
    return nothing("None", "No port of this server has TLS.");
  }
  return facts(
    certificates.map(({ name: port, file, days_left: days }) => [
      port,
      [
        badge(lasting(days), days === null || days < SOON ? "bad" : "good"),
        " ",
        h("code", {}, name(file)),
      ],
    ]),
  );
}

function lasting(days) {
  return days === null ? "not known" : days < 0 ? "expired" : `${many(days, "day")} left`;
}

/** The options that differ from their defaults. */
function configured(options = {}) {
  const rows = Object.entries(options).sort(([one], [other]) => natural(one, other));
  return rows.length
    ? facts(rows.map(([option, value]) => [h("code", {}, `--${option}`), name([value].flat().map(written).join(", "), 200)]))
    : nothing("As by default", "No setting has another value than its default.");
}

function written(value) {
  return typeof value === "number" ? (Number.isInteger(value) ? count(value) : String(value)) : String(value);
}

function details(server) {
  const formats = Object.entries(server.formats ?? {});
  return facts([
    ["Name", name(server.server)],
    ["Version", server.version],
    [
      "Started",
      since(server.started),
    ],
    ["Formats", formats.map(([format, address]) => h("div", { class: "format" }, badge(format), h("code", {}, name(address))))],
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
  const wrong = health.checks.filter(({ status }) => status !== "ok");
  const well = health.checks.filter(({ status }) => status === "ok").map((each) => each.name);
  const amount = wrong.length ? `${count(well.length)} of ${many(health.checks.length, "check")}` : `All ${count(well.length)} checks`;
  return [
    h("ul", { class: "checks" }, wrong.map(line)),
    well.length ? h("p", {}, badge("✓", "good"), ` ${amount} are well: `, h("span", { class: "soft" }, well.join(", "))) : null,
  ];
}

function line({ name: check, status, message }) {
  const [kind, sign] = STATUS[status] ?? STATUS.failed;
  const text = h("span", { class: "soft" }, prose(message));
  return h("li", { class: kind }, h("span", { "aria-hidden": "true" }, sign), h("b", {}, check), text);
}

function controls(app, server) {
  if (!app.may("write")) {
    return [
      h(
        "p",
        { class: "soft" },
        "You may only look. Users with the right to write can reload, seal, drain and set the log level here.",
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
