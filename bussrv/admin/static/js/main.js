/**
 * Puts the page together: what the server is asked, the views, and the way from one to another.
 */

import { Api } from "./api.js";
import { Cursor } from "./chart.js";
import { Credentials } from "./credentials.js";
import { Notices } from "./dialog.js";
import { fill, h } from "./dom.js";
import { EventStream } from "./event_stream.js";
import { Figures, KEPT } from "./figures.js";
import { Health } from "./health.js";
import { showKeys } from "./keys.js";
import { Latest } from "./latest.js";
import { Live } from "./live.js";
import { Panel } from "./panel.js";
import { limitPanel } from "./panels/limit.js";
import { linkPanel } from "./panels/link.js";
import { objectPanel } from "./panels/object.js";
import { recordPanel } from "./panels/record.js";
import { servicePanel } from "./panels/service.js";
import { sessionPanel } from "./panels/session.js";
import { passTime } from "./parts.js";
import { Reasons } from "./reasons.js";
import { Records } from "./records.js";
import { Router } from "./router.js";
import { Sessions } from "./sessions.js";
import { Shell } from "./shell.js";
import { SignIn } from "./sign_in.js";
import { busiestView } from "./views/busiest.js";
import { closedView } from "./views/closed.js";
import { deniedView } from "./views/denied.js";
import { eventsView } from "./views/events.js";
import { incidentsView } from "./views/incidents.js";
import { journalView } from "./views/journal.js";
import { limitsView } from "./views/limits.js";
import { linksView } from "./views/links.js";
import { missingView } from "./views/missing.js";
import { overviewView } from "./views/overview.js";
import { pastView } from "./views/past.js";
import { serverView } from "./views/server.js";
import { serversView } from "./views/servers.js";
import { servicesView } from "./views/services.js";
import { sessionsView } from "./views/sessions.js";
import { slowView } from "./views/slow.js";
import { tapView } from "./views/tap.js";
import { whyView } from "./views/why.js";

const VIEWS = {
  overview: overviewView,
  sessions: sessionsView,
  services: servicesView,
  busiest: busiestView,
  links: linksView,
  servers: serversView,
  incidents: incidentsView,
  slow: slowView,
  closed: closedView,
  denied: deniedView,
  events: eventsView,
  why: whyView,
  past: pastView,
  journal: journalView,
  limits: limitsView,
  tap: tapView,
  server: serverView,
};

/** Stands for an address that names none of them. */
const MISSING = "";

/** Records of the journal that the page keeps, and of those that closed a session or denied something. */
const RECORDS = 5000;
const OTHERS = 2000;
/** Records that are asked for when the page is opened. */
const EARLIER = 200;
const DENIALS = ["access.denied", "auth.failed"];

class App {
  constructor() {
    this.api = new Api(new Credentials(sessionStorage));
    this.router = new Router("overview");
    this.notices = new Notices(document.getElementById("notice"));
    this.signIn = new SignIn(this.api);
    this.cursor = new Cursor();
    /** What charts show: the last `span` seconds, or the time from `from` until `until`, milliseconds. */
    this.range = { span: 300 };
    this.tapped = [];
    this.#watch();
  }

  #watch() {
    const { api } = this;
    this.reasons = new Reasons(api);
    this.figures = new Figures();
    this.sessions = new Sessions(api);
    this.records = new Records(RECORDS);
    this.closed = new Records(OTHERS, (record) => record.event === "session.closed");
    this.denied = new Records(OTHERS, (record) => DENIALS.includes(record.event));
    api.denied.listen((problem) => this.#denied(problem));
    this.server = new Latest(() => api.get("server"), 5000, null);
    this.incidents = new Latest(() => api.all("incidents"), 3000, { items: [] });
    this.journal = new Latest(() => api.get("journal"), 10000, null);
    this.linkList = new Latest(() => api.all("links"), 3000, { items: [] });
    this.links = new LinkItems(this.linkList);
    this.net = new Latest(() => api.get("net"), 5000, null);
    this.health = new Health(api);
    this.live = new Live(api, {
      figures: this.figures,
      sessions: this.sessions,
      takeRecords: (records) => {
        this.figures.note(records);
        [this.records, this.closed, this.denied].forEach((each) => each.add(records));
      },
    });
    api.credentials.changed.listen(() => this.refresh());
    this.live.missed.listen(() => this.#readEarlier());
    const unlisten = this.live.missed.listen(() => {
      unlisten();
      this.#readRecords();
    });
    this.live.begun.listen(() => this.#readFigures());
    this.reasons.load();
  }

  /** What the server kept of what this page did not see. */
  async #readEarlier() {
    for (const [path, records] of [
      ["closed", this.closed],
      ["denied", this.denied],
    ]) {
      try {
        const { items } = await this.api.all(path, { most: OTHERS });
        records.merge(items.map((item) => (path === "closed" ? { event: "session.closed", ...item } : item)));
      } catch {
        // They are not shown then; the view says that there are none since the page was opened.
      }
    }
  }

  /** The last records from before the page was opened. */
  #readRecords() {
    const { seq } = this.live;
    const take = (events) => {
      const before = events.filter(({ id, event }) => event !== "skipped" && Number(id) <= seq);
      const records = before.map(({ data }) => JSON.parse(data));
      records.forEach((record) => this.sessions.name(record));
      this.records.merge(records);
      if (Number(events.at(-1).id) >= seq) {
        stream.stop();
      }
    };
    const stream = new EventStream(this.api, "events", {
      parameters: { after: Math.max(0, seq - EARLIER) },
      onEvents: take,
      onState: ({ state }) => state === "refused" && stream.stop(),
    });
  }

  /** The figures from before the page was opened, or from when it was not connected. */
  async #readFigures() {
    try {
      this.figures.begin(await this.api.get("history", { parameters: { since: -KEPT, points: KEPT } }));
    } catch {
      // The charts begin with what comes now.
    }
  }

  /** Whether you may do that: `read` or `write`. */
  may(permission) {
    return Boolean(this.server.latest?.permissions?.[permission]);
  }

  /** Sign in because you want to, not because you have to. */
  signInForMore() {
    const { identity, policy } = this.server.latest ?? {};
    if (identity || policy) {
      return this.signIn.ask("Sign in as a user who may do more here.");
    }
    const why =
      "Everybody may look. To change something, sign in with the token in the admin token file of the server.";
    return this.signIn.ask(why, "token");
  }

  /** Ask again for what may be another thing now. */
  refresh() {
    this.server.again();
    this.incidents.again();
    this.linkList.again();
    this.net.again();
    this.reasons.load();
  }

  #denied(problem) {
    const wrong = this.api.credentials.header !== null;
    this.signIn.ask(wrong ? "The server does not accept your credentials any more." : problem.message, "user", true);
  }
}

/** The links, as views want them: always a list. */
class LinkItems {
  constructor(latest) {
    this.latest = latest;
    this.changed = latest.changed;
  }

  get items() {
    return this.latest.latest.items;
  }

  get problem() {
    return this.latest.problem;
  }
}

class Page {
  #views = new Map();
  #shown = null;

  constructor(app) {
    this.app = app;
    this.shell = new Shell(app);
    this.panel = new Panel(app.router, {
      session: (id) => sessionPanel(app, id),
      service: (service) => servicePanel(app, service),
      limit: (name) => limitPanel(app, name),
      link: (id) => linkPanel(app, id),
      record: (seq) => recordPanel(app, seq),
      object: (number) => objectPanel(app, number),
    });
    const { header, nav, banner, main } = this.shell;
    const skip = h("a", { class: "skip", href: "#main", onclick: (event) => this.#skip(event) }, "To the content");
    const room = h("div", { class: "room" }, main, this.panel.element);
    fill(document.getElementById("page"), skip, header, nav, h("div", { class: "body" }, banner, room));
    app.router.changed.listen(() => this.#show(true));
    app.live.changed.listen(() => this.#shown?.show());
    app.server.changed.listen(() => this.#shown?.show());
    setInterval(() => this.#shown?.tick?.(), 1000);
    setInterval(passTime, 5000);
    addEventListener("keydown", (event) => this.#key(event));
    this.#show(false);
    this.panel.show();
  }

  /** The view that the address names, or one that says that there is no such view. */
  #show(move) {
    const wanted = Object.hasOwn(VIEWS, this.app.router.view) ? this.app.router.view : MISSING;
    if (wanted === this.#shown?.name && wanted !== MISSING) {
      return;
    }
    this.#shown?.hide?.();
    if (!this.#views.has(wanted)) {
      this.#views.set(wanted, { ...(VIEWS[wanted] ?? missingView)(this.app), name: wanted });
    }
    this.#shown = this.#views.get(wanted);
    fill(this.shell.main, this.#shown.element);
    this.shell.mark(wanted);
    document.title = `${this.#shown.heading.textContent} · bussrv`;
    this.#shown.show();
    if (move) {
      this.#shown.heading.focus({ preventScroll: true });
    }
  }

  #skip(event) {
    event.preventDefault();
    this.shell.main.focus();
  }

  /** `/` goes to the filter of the view, and `?` tells the keys. */
  #key(event) {
    const typing = event.target.closest?.("input, select, textarea, dialog");
    if (event.key === "?" && !typing && !event.ctrlKey && !event.metaKey) {
      event.preventDefault();
      showKeys();
    }
    if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && this.#shown.filter) {
      event.preventDefault();
      this.#shown.filter.focus();
    }
  }
}

new Page(new App());
