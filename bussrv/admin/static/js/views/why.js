/**
 * Why a session was given an object, or was not: the decisions of a moment, made again from the journal.
 */

import { fill, h } from "../dom.js";
import { count, many } from "../format.js";
import { short } from "../names.js";
import { filterInput, nothing, since } from "../parts.js";
import { Table } from "../table.js";
import { called } from "../words.js";
import { frame, matching } from "./frame.js";

const KINDS = [
  ["object", "Object, as JSON", '{"type":"text/plain"}'],
  ["service", "Publication on", "a service"],
  ["request", "Request for", "a service"],
];
const HUES = { yes: "good", no: "bad", unknown: "odd" };
const RANKS = { no: 0, unknown: 1, yes: 2 };

export function whyView(app) {
  return new WhyView(app).view;
}

class WhyView {
  #asked = 0;

  constructor(app) {
    this.app = app;
    this.text = "";
    this.sessions = [];
    this.said = h("div", { class: "said", role: "status" });
    this.table = new Table({
      caption: "Sessions at that moment",
      key: (row) => `${row.server} ${row.session} ${row.reason}`,
      sort: "Given",
      open: (row) => app.router.open({ session: row.session }),
      empty: nothing("Ask why a client did not get it", "Say what was sent, and when. Every session then present is shown."),
      columns: [
        {
          label: "Given",
          width: 6,
          text: (row) => row.answer,
          kind: (row) => HUES[row.answer],
          sort: (row) => RANKS[row.answer],
        },
        { label: "Client", least: 13, text: called, sort: called },
        { label: "Why", least: 18, share: 3, text: (row) => short(row.why), sort: (row) => row.why },
        { label: "Record", width: 6.5, rank: 1, end: true, text: (row) => (row.seq === null ? "" : count(row.seq)) },
        { label: "Format", width: 6, rank: 2, text: (row) => row.protocol, sort: (row) => row.protocol },
        { label: "Server", width: 8, rank: 3, text: (row) => short(row.server), sort: (row) => row.server },
        { label: "Address", width: 12.5, rank: 2, mono: true, text: (row) => short(row.peer), sort: (row) => row.peer },
      ],
    });
    const filter = filterInput("Filter the answer", (value) => {
      this.text = value;
      this.#draw();
    });
    const content = h("div", { class: "stack" }, this.#form(), this.said, this.table.element);
    const made = frame({ title: "Why", tools: [filter], content, fixed: true });
    this.amount = made.amount;
    this.view = { ...made, show() {}, hide() {}, filter };
  }

  #form() {
    const input = (label, name, attributes = {}) =>
      h(
        "label",
        { class: "field" },
        h("span", {}, label),
        h("input", { name, type: "text", autocomplete: "off", spellcheck: "false", ...attributes }),
      );
    this.what = h("input", { name: "what", type: "text", autocomplete: "off", spellcheck: "false", required: true });
    const kinds = KINDS.map(([value, label]) => h("option", { value }, label));
    const kind = h("select", { name: "kind", onchange: (event) => this.#hint(event.target.value) }, kinds);
    this.#hint("object");
    return h(
      "form",
      { class: "tap-form", onsubmit: (event) => this.#submit(event) },
      h("label", { class: "field" }, h("span", {}, "What was sent"), kind),
      h("label", { class: "field" }, h("span", {}, "Which one"), this.what),
      input("When: time in UTC, or record", "at", { placeholder: "now" }),
      input("From", "from", { placeholder: "anybody" }),
      input("To", "to", { placeholder: "all" }),
      input("Turn", "turn", { placeholder: "not known", title: "Whose turn it was, of several that take turns" }),
      input("Asker", "asker", { placeholder: "not known", title: "Who asked, if it is a reply" }),
      h("div", { class: "buttons" }, h("button", { class: "main" }, "Ask")),
    );
  }

  #hint(kind) {
    this.what.placeholder = KINDS.find(([value]) => value === kind)[2];
  }

  async #submit(event) {
    event.preventDefault();
    const { kind, what, ...others } = Object.fromEntries(new FormData(event.target));
    const parameters = Object.fromEntries(Object.entries({ [kind]: what, ...others }).filter(([, value]) => value !== ""));
    const asked = ++this.#asked;
    fill(this.said, h("p", { class: "soft" }, "Reading the journal…"));
    try {
      const answer = await this.app.api.get("why", { parameters });
      if (asked === this.#asked) {
        this.#show(answer);
      }
    } catch (error) {
      if (asked === this.#asked) {
        fill(this.said);
        this.table.empty = nothing("That cannot be said", error.message);
        this.sessions = [];
        this.#draw();
      }
    }
  }

  #show(answer) {
    const [moment] = answer.moments;
    const rules = moment.rules.is_known ? (moment.rules.policy ?? "no policy") : "rules not known";
    const refused = answer.sender.refused;
    const links = answer.links.map((link) => {
      const until = link.up === null ? "" : ` to record ${count(link.up)}`;
      const state = link.is_up
        ? link.is_forwarded
          ? "forwarded"
          : "not forwarded"
        : `down from record ${count(link.down)}${until}`;
      return `Link to ${short(link.peer)}: ${state}.`;
    });
    fill(
      this.said,
      h("p", { class: "soft" }, `After record ${count(moment.seq)}, `, since(moment.time), `, with ${short(rules)}.`),
      ...(refused === null ? [] : [h("p", {}, h("b", {}, "The server refused it. "), short(refused))]),
      ...[...links, ...answer.notes].map((note) => h("p", { class: "soft" }, note)),
    );
    this.table.empty = nothing("Nobody is called so", "No session of that moment has that name.");
    this.sessions = answer.sessions;
    this.#draw();
  }

  #draw() {
    const match = matching(this.text, ["why", "answer", "server"]);
    const rows = match ? this.sessions.filter(match) : this.sessions;
    this.table.rows = rows;
    const given = rows.filter((row) => row.answer === "yes").length;
    this.amount(rows.length ? `given to ${count(given)} of ${many(rows.length, "session")}` : "");
  }
}
