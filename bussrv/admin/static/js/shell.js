/**
 * What is around the views: the name of the server, whether it is well, whether the page still hears of it, who you are,
 * and the way to each view.
 */

import { needsLook } from "./audit.js";
import { fill, h, setText } from "./dom.js";
import { eachFrame } from "./frame.js";
import { brief, count, timeOfDay } from "./format.js";
import { showKeys } from "./keys.js";
import { name } from "./names.js";
import { button } from "./parts.js";
import { colour } from "./views/incidents.js";

/** The views, in groups. */
export const GROUPS = [
  [
    "Now",
    [
      ["overview", "Overview"],
      ["sessions", "Sessions"],
      ["services", "Services"],
      ["busiest", "Busiest"],
      ["links", "Links"],
      ["servers", "Servers"],
      ["tap", "Tap"],
    ],
  ],
  [
    "Trouble",
    [
      ["incidents", "Incidents"],
      ["slow", "Slow"],
      ["closed", "Closed"],
      ["denied", "Denied"],
    ],
  ],
  [
    "Record",
    [
      ["events", "Events"],
      ["why", "Why"],
      ["past", "Past"],
      ["journal", "Journal"],
    ],
  ],
  [
    "Server",
    [
      ["limits", "Limits"],
      ["server", "Server"],
    ],
  ],
];

/** Smaller amounts are shown whole: the same number stands in the views. */
const EXACT = 10000;

const STATES = { ok: ["All is well", "good"], degraded: ["Degraded", "odd"], down: ["Not ready", "bad"] };

/** What a stream of events does, from the worst. */
const STATES_OF_STREAMS = ["denied", "refused", "waiting", "connecting", "paused", "stopped", "live"];
const CONNECTION = {
  live: "Live",
  connecting: "Connecting…",
  denied: "Signed out",
  refused: "No events",
  paused: "Paused",
  waiting: "No connection",
  stopped: "Stopped",
};

export class Shell {
  constructor(app) {
    this.app = app;
    this.draw = eachFrame(() => this.#draw(), 250);
    this.main = h("main", { id: "main", tabindex: "-1" });
    this.#build();
    for (const each of [
      app.figures,
      app.sessions,
      app.closed,
      app.denied,
      app.health,
      app.server,
      app.links,
      app.net,
      app.live,
      app.journal,
    ]) {
      each.changed.listen(this.draw);
    }
    setInterval(this.draw, 1000);
  }

  #build() {
    this.links = new Map();
    const groups = GROUPS.map(([title, views]) =>
      h(
        "div",
        { class: "group" },
        h("h2", {}, title),
        h(
          "ul",
          {},
          views.map(([view, label]) => h("li", {}, this.#link(view, label))),
        ),
      ),
    );
    this.nav = h("nav", { id: "views", "aria-label": "Views" }, groups);
    this.menu = h(
      "button",
      { type: "button", class: "menu icon", "aria-controls": "views", "aria-expanded": "false", "aria-label": "Views" },
      "☰",
    );
    this.menu.addEventListener("click", () => this.#toggle(!this.nav.classList.contains("open")));
    this.nav.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && this.nav.classList.contains("open")) {
        this.#toggle(false);
        this.menu.focus();
      }
    });
    this.serverName = h("span", { class: "server-name" });
    this.healthText = h("span");
    this.healthMore = h("span", { class: "more" });
    this.health = h("a", { class: "pill", href: "#/server" }, h("span", {}, this.healthText, this.healthMore));
    this.connection = h("span", { class: "pill", role: "status" });
    this.who = h("span", { class: "who" });
    this.banner = h("div", { class: "banner", role: "alert", hidden: true });
    this.next = h("span");
    this.said = "";
    this.sign = button("Sign in", () => this.#sign(), "quiet");
    const help = h("button", { type: "button", class: "icon help", "aria-label": "Keys", title: "Keys (?)" }, "?");
    help.addEventListener("click", showKeys);
    const brand = h(
      "a",
      { class: "brand", href: "#/overview" },
      h("span", { class: "logo", "aria-hidden": "true" }),
      "bussrv",
    );
    this.header = h(
      "header",
      { class: "top" },
      this.menu,
      brand,
      this.serverName,
      this.health,
      h("span", { class: "gap" }),
      this.connection,
      this.who,
      this.sign,
      help,
    );
  }

  #link(view, label) {
    const amount = h("span", { class: "amount" });
    const link = h("a", { href: `#/${view}` }, h("span", {}, label), amount);
    this.links.set(view, { link, amount });
    return link;
  }

  #toggle(open) {
    this.nav.classList.toggle("open", open);
    this.menu.setAttribute("aria-expanded", open);
  }

  /** Mark the view that is shown. */
  mark(view) {
    this.#toggle(false);
    for (const [each, { link }] of this.links) {
      if (each === view) {
        link.setAttribute("aria-current", "page");
      } else {
        link.removeAttribute("aria-current");
      }
    }
  }

  #sign() {
    if (this.app.api.credentials.header) {
      this.app.api.credentials.header = null;
    } else {
      this.app.signInForMore();
    }
  }

  #draw() {
    const { app } = this;
    const server = app.server.latest;
    if (server && server.server !== this.shownName) {
      this.shownName = server.server;
      fill(this.serverName, name(server.server, 40));
    }
    this.#drawHealth(server);
    this.#drawConnection();
    this.#drawWho(server);
    this.#drawAmounts();
  }

  #drawHealth(server) {
    const { state, failed } = this.app.health;
    const { incidents, gravest } = this.app.figures.latest ?? {};
    const draining = server?.draining;
    const needsLook = !draining && state === "ok" && incidents > 0;
    const [text, kind] = draining
      ? ["Draining", "odd"]
      : needsLook
        ? [incidents === 1 ? "1 incident" : `${count(incidents)} incidents`, colour(gravest)]
        : (STATES[state] ?? ["Not known", ""]);
    setText(this.healthText, text);
    setText(this.healthMore, !draining && kind && failed.length ? `: ${failed.join(", ")}` : "");
    // Beside the words that there is no connection, they would say nothing, and leave no room.
    this.health.hidden = this.app.live.goneSince !== null;
    this.health.className = `pill ${kind}`;
    this.health.href = needsLook ? "#/incidents" : "#/server";
  }

  #drawConnection() {
    const { live } = this.app;
    const { figures, events } = live.states;
    const worst = [events, figures].sort(
      (one, other) => STATES_OF_STREAMS.indexOf(one.state) - STATES_OF_STREAMS.indexOf(other.state),
    )[0];
    const gone = live.goneSince !== null;
    setText(this.connection, gone ? "No connection" : CONNECTION[worst.state]);
    this.connection.className = `pill ${gone ? "bad" : worst.state === "live" ? "good" : "odd"}`;
    const said = gone
      ? `The server has not answered since ${timeOfDay(live.goneSince)}. Everything below is from before.`
      : worst.state === "refused"
        ? `The server shows no events: ${worst.problem.message}`
        : "";
    this.#tell(said);
    setText(this.next, nextTry([figures, events]));
  }

  /** The text is read aloud when it is another one; the seconds until the next try are not. */
  #tell(said) {
    this.banner.hidden = said === "";
    if (said !== this.said) {
      this.said = said;
      this.next = h("span", { "aria-hidden": "true" });
      fill(this.banner, said ? [h("span", {}, said), this.next, button("Try now", () => this.app.live.retry())] : []);
    }
  }

  #drawWho(server) {
    const signedIn = Boolean(this.app.api.credentials.header);
    const text = server?.actor ? server.actor : signedIn ? "" : "not signed in";
    if (text !== this.shownWho) {
      this.shownWho = text;
      fill(this.who, name(text, 30));
    }
    setText(this.sign, signedIn ? "Sign out" : "Sign in");
  }

  #drawAmounts() {
    const { app } = this;
    const latest = app.figures.latest ?? {};
    this.#amount("sessions", app.figures.now.sessions);
    this.#amount("services", latest.services);
    this.#links(app.links.items);
    this.#servers(app.net.latest?.servers ?? []);
    this.#write("incidents", latest.incidents ? count(latest.incidents) : "", colour(latest.gravest));
    this.#amount("closed", app.closed.list.length);
    this.#amount("denied", app.denied.list.length);
    const isAmiss = latest.degraded?.includes("journal") || needsLook(app.journal.latest?.audit);
    this.#amount("journal", undefined, isAmiss);
  }

  #links(items) {
    const up = items.filter((link) => link.state === "up").length;
    this.#write(
      "links",
      items.length === 0 ? "" : up < items.length ? `${up} of ${items.length} up` : brief(up),
      up < items.length,
    );
  }

  #servers(items) {
    const bad = items.filter(({ status }) => ["not-ready", "unreachable"].includes(status)).length;
    this.#write("servers", items.length > 1 ? (bad ? `${bad} not well` : brief(items.length)) : "", bad > 0);
  }

  #amount(view, number, odd = false) {
    this.#write(view, number ? (number < EXACT ? count(number) : brief(number)) : odd ? "!" : "", odd);
  }

  #write(view, text, odd) {
    const { amount } = this.links.get(view);
    setText(amount, text);
    amount.className = `amount ${odd === true ? "odd" : odd || ""}`;
  }
}

function nextTry(states) {
  const next = Math.min(...states.map((each) => each.retryAt ?? Infinity));
  const seconds = Math.ceil((next - Date.now()) / 1000);
  return Number.isFinite(seconds) && seconds > 0 ? ` Next try in ${seconds} s. ` : " Trying now… ";
}
