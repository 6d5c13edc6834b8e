/**
 * One session: who it is, what it does, what became of it, and everything that the journal knows of it.
 */

import { Changes } from "../changes.js";
import { fill, h, refill, setText } from "../dom.js";
import { eachFrame } from "../frame.js";
import { ago, bytes, duration, moment, timeOfDay } from "../format.js";
import { name, OWN } from "../names.js";
import { badge, button, copied, facts, nothing, section, since, time } from "../parts.js";
import { Poll } from "../poll.js";
import { trafficSection } from "../traffic.js";
import { called, gravity, interest, line, remark, traffic } from "../words.js";

/** Who it is: what a name that somebody has opened must not be closed for, unless it changes. */
const IDENTITY = ["protocol", "routing_id", "routing_ids", "actor", "claimed", "name", "peer", "home", "persistent", "state"];
const PAUSE = 2000;
const PAGE = 200;
/** Pages of a history that are read at most to find how it ended. */
const PAGES = 20;

export function sessionPanel(app, id) {
  return new SessionPanel(app, id);
}

class SessionPanel {
  #session = null;
  #records = [];
  #next = null;
  #problem = null;
  #unlisten = () => {};

  constructor(app, id) {
    Object.assign(this, { app, id });
    // What the list knows is there at once.
    this.#session = app.sessions.get(id) ?? null;
    this.title = name(id, 40);
    this.draw = eachFrame(() => this.#draw());
    this.state = h("div", { class: "verdict" });
    this.about = h("div");
    this.moved = h("div");
    this.since = h("span");
    this.held = h("div");
    this.history = h("ol", { class: "timeline" });
    this.more = h("div");
    this.traffic = trafficSection(app, "session", id);
    this.element = h(
      "div",
      {},
      this.state,
      this.about,
      this.moved,
      this.held,
      this.traffic.element,
      h("section", {}, h("h3", {}, "History"), this.history, this.more),
    );
    this.poll = new Poll(() => this.#ask(), PAUSE);
  }

  start() {
    this.draw();
    this.poll.start();
    this.traffic.start();
    this.#readHistory(null, PAGES);
    this.#unlisten = this.app.records.changed.listen(() => this.#follow());
  }

  stop() {
    this.poll.stop();
    this.traffic.stop();
    this.#unlisten();
  }

  async #ask() {
    try {
      this.#session = await this.app.api.get(`sessions/${encodeURIComponent(this.id)}`);
    } catch (error) {
      if (error.status !== 404) {
        throw error;
      }
      this.#session = null;
      this.poll.stop();
      // Without events, only the history knows how it ended.
      this.#readHistory(this.#records.at(-1)?.seq, PAGES);
    }
    this.draw();
  }

  async #readHistory(after, pages) {
    try {
      const path = `sessions/${encodeURIComponent(this.id)}/history`;
      const page = await this.app.api.get(path, { parameters: { limit: PAGE, after } });
      const known = new Set(this.#records.map((record) => record.seq));
      this.#records.push(...page.items.filter((record) => !known.has(record.seq)));
      this.#records.sort((one, other) => one.seq - other.seq);
      this.#next = page.next;
    } catch (error) {
      this.#problem = error;
    }
    this.draw();
    if (this.#next && pages > 1 && !this.#problem) {
      await this.#readHistory(this.#next, pages - 1);
    }
  }

  /** Add what happens while it is looked at. */
  #follow() {
    const last = this.#records.at(-1)?.seq ?? Infinity;
    const fresh = [];
    for (let index = this.app.records.list.length - 1; index >= 0; index -= 1) {
      const record = this.app.records.list[index];
      if (record.seq <= last) {
        break;
      }
      if (record.session === this.id) {
        fresh.unshift(record);
      }
    }
    if (fresh.length) {
      this.#records.push(...fresh);
      this.poll.start();
      this.draw();
    }
  }

  get #closed() {
    return this.#records.findLast((record) => record.event === "session.closed");
  }

  #draw() {
    const closed = this.#closed;
    const present = this.#session && !closed;
    const last = closed ?? this.#session ?? this.#records.at(-1);
    if (last) {
      this.title.textContent = called(last);
    }
    const may = this.app.may("write");
    const problem = this.#problem?.message;
    const looked = this.#records.length > 0 || Boolean(problem);
    const until = present ? this.#session.kept_until : null;
    refill(this.state, [present, until, closed, may, looked], () => (present ? this.#presence() : this.#end(closed)));
    const isAway = present && this.#session.state === "away";
    if (present) {
      setText(this.since, ` for ${ago(isAway ? this.#session.away_since : this.#session.opened)}`);
    }
    const kind = isAway ? "odd" : present ? "good" : closed ? gravity(closed) : "";
    this.state.className = `verdict ${kind || "calm"}`;
    refill(
      this.about,
      last ? [IDENTITY.map((field) => last[field]), this.#opened] : null,
      () => last && this.#who(last),
    );
    fill(this.moved, last && this.#traffic(closed));
    const { services = [], subscriptions = [] } = this.#session ?? {};
    refill(this.held, [present, services, subscriptions, may], () => (present ? this.#holdings() : []));
    const { length } = this.#records;
    refill(this.history, length, () => this.#records.map((record) => this.#item(record)));
    refill(this.more, [length, this.#next, problem], () => this.#rest());
  }

  #presence() {
    const { app } = this;
    const close =
      app.may("write") && this.#isHere
        ? button("Close session…", () => new Changes(app).closeSession(this.#session), "grave")
        : null;
    const { state, away_since: since, kept_until: until } = this.#session;
    if (state !== "away") {
      return [h("p", {}, h("b", {}, "Present"), this.since), close];
    }
    return [
      h("p", {}, h("b", {}, "Away"), this.since),
      h("p", {}, "It left at ", time(moment(since), since), ", and is kept until ", time(moment(until), until), "."),
      close,
    ];
  }

  /** Sessions of other servers, and of this server itself, are not closed here. */
  get #isHere() {
    return this.#session.home === null && this.#session.protocol !== OWN;
  }

  #end(closed) {
    if (!closed) {
      return this.#records.length || this.#problem
        ? h("p", {}, h("b", {}, "Not present"))
        : h("p", { class: "soft" }, "Looking it up…");
    }
    const meaning = this.app.reasons.meaning(closed.reason);
    return [
      h("p", {}, h("b", {}, "Gone: "), h("code", {}, closed.reason ?? "")),
      meaning ? h("p", {}, sentence(meaning)) : null,
      h(
        "p",
        { class: "soft" },
        since(closed.time),
        `, after ${duration(closed.duration / 1e6)}`,
      ),
    ];
  }

  /** When it was opened, as far as that is known. */
  get #opened() {
    return this.#session?.opened ?? this.#records.find((record) => record.event === "session.opened")?.time;
  }

  #who(last) {
    const opened = this.#opened;
    return facts([
      ["Format", last.protocol],
      ["Further ids", last.routing_ids?.length ? last.routing_ids.map((each) => [name(each, 60), " "]) : null],
      ["User", last.actor ? [name(last.actor), " ", badge("proved", "good")] : null],
      ["User it claims", last.claimed ? [name(last.claimed), " ", badge("claimed", "odd")] : null],
      ["Program", last.name ? [name(last.name), " ", badge("claimed", "odd")] : null],
      ["Address", last.peer ? name(last.peer) : null],
      ["Server", last.home ? name(last.home) : null],
      ["Opened", opened ? since(opened) : null],
      ["Persistent", last.persistent ? "outlives a restart" : null],
      ["Session", h("code", {}, this.id)],
      ["Routing id", last.routing_id ? copied(last.routing_id) : null],
    ]);
  }

  #traffic(closed) {
    const counted = closed ?? (Number.isFinite(this.#session?.objects_in) ? this.#session : null);
    const { received, sent } = counted ? traffic(counted) : {};
    const waiting = closed ? 0 : this.#session?.waiting_bytes;
    return facts([
      ["Received", received],
      ["Sent", sent],
      ["Waiting", waiting ? badge(bytes(waiting), "odd") : null],
    ]);
  }

  #holdings() {
    const { services = [], subscriptions = [] } = this.#session;
    const provided = Array.isArray(services) ? services : [];
    const wanted = Array.isArray(subscriptions) ? subscriptions : [];
    return [
      provided.length
        ? section(
            "Provides",
            provided.length,
            h(
              "ul",
              { class: "links" },
              provided.map((each) => h("li", {}, this.#service(each.service ?? each))),
            ),
          )
        : null,
      wanted.length
        ? section(
            "Subscribed",
            wanted.length,
            h(
              "ul",
              { class: "links" },
              wanted.map((each) => this.#subscription(each)),
            ),
          )
        : null,
    ];
  }

  #service(service) {
    return h("a", { href: this.app.router.address("services", { service }) }, name(service, 80));
  }

  #subscription(each) {
    const what = each.service ? this.#service(each.service) : h("span", {}, interest(each.interest) || "objects");
    const lease = each.expires ? h("span", { class: "soft" }, `until ${timeOfDay(each.expires)}`) : null;
    const drop =
      each.service && this.app.may("write") && this.#session.home === null
        ? button("Drop…", () => new Changes(this.app).dropLease({ ...this.#session, service: each.service }), "quiet")
        : null;
    return h("li", {}, h("span", {}, what, " ", lease), drop);
  }

  #item(record) {
    // Why it is gone stands above already.
    const meaning = record.event === "session.closed" ? "" : this.app.reasons.meaning(record.reason);
    const further = remark(record);
    return h(
      "li",
      { class: gravity(record) },
      time(timeOfDay(record.time, true), record.time),
      h(
        "div",
        {},
        line(record),
        further ? h("div", { class: "soft" }, further) : null,
        meaning ? h("div", { class: "soft" }, sentence(meaning)) : null,
      ),
    );
  }

  #rest() {
    if (this.#next) {
      return button("Show more", () => this.#readHistory(this.#next, 1));
    }
    if (this.#records.length === 0) {
      return this.#problem
        ? nothing("No history", this.#problem.message)
        : nothing("Nothing in the journal yet", "A session is written down when it first does something.");
    }
    return null;
  }
}

function sentence(text) {
  return `${text[0].toUpperCase()}${text.slice(1)}.`;
}
