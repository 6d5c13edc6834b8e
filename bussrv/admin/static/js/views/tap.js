/**
 * Objects as they pass, of a service, a session, a type or a format: sampled, no faster than people read, and with their
 * payloads only if asked for.
 */

import { EventStream } from "../event_stream.js";
import { h, setText } from "../dom.js";
import { eachFrame } from "../frame.js";
import { bytes, count, dateAndZone, timeOfDay } from "../format.js";
import { short } from "../names.js";
import { button, nothing } from "../parts.js";
import { Table } from "../table.js";
import { called } from "../words.js";
import { frame } from "./frame.js";

const KEPT = 2000;
const CALM = 250;

export function tapView(app) {
  return new TapView(app).view;
}

class TapView {
  #stream = null;
  #skipped = 0;
  #number = 0;

  constructor(app) {
    this.app = app;
    this.objects = app.tapped;
    this.draw = eachFrame(() => this.#draw(), CALM);
    this.toggle = h("button", { class: "main" }, "Start");
    this.state = h("p", { class: "soft", role: "status" });
    this.table = this.#makeTable();
    const clear = button("Clear", () => {
      this.objects.length = 0;
      this.#skipped = 0;
      this.draw();
    });
    const content = h("div", { class: "stack" }, this.#form(clear), this.state, this.table.element);
    const made = frame({ title: "Tap", content, fixed: true });
    this.view = { ...made, show: () => this.#begin(), hide: () => this.#stop() };
    this.amount = made.amount;
  }

  #makeTable() {
    return new Table({
      caption: "Tapped objects",
      key: (row) => row.number,
      open: (row) => this.app.router.open({ object: row.number }),
      empty: nothing(
        "Nothing tapped yet",
        "Start it, and the objects that pass show up here. The journal notes who taps.",
      ),
      columns: [
        {
          label: "Time",
          width: 7.75,
          text: (row) => timeOfDay(row.time, true),
          hover: (row) => dateAndZone(row.time),
          kind: () => "soft",
        },
        { label: "From", least: 13, text: (row) => called(row.from ?? {}) },
        { label: "Service", least: 9, text: (row) => short(row.service) },
        { label: "Event", rank: 3, least: 8, share: 0.7, text: (row) => short(row.event) },
        { label: "Type", rank: 2, least: 8, share: 0.7, text: (row) => short(row.type) },
        { label: "Format", width: 6, rank: 2, text: (row) => row.from?.protocol ?? "" },
        { label: "Size", width: 6, rank: 1, end: true, text: (row) => bytes(row.bytes) },
        { label: "To", width: 4.5, rank: 1, end: true, text: (row) => count(row.to_count) },
      ],
    });
  }

  #form(clear) {
    const input = (label, name, attributes = {}) =>
      h(
        "label",
        { class: "field" },
        h("span", {}, label),
        h("input", { name, type: "text", autocomplete: "off", spellcheck: "false", ...attributes }),
      );
    this.formats = h("select", { name: "format" }, h("option", { value: "" }, "all"));
    return h(
      "form",
      { class: "tap-form", onsubmit: (event) => this.#submit(event) },
      input("Service", "service", { placeholder: "any, * for a part" }),
      input("Type or @event", "type", { placeholder: "any, * for a part" }),
      input("Session", "session", { placeholder: "any" }),
      h("label", { class: "field" }, h("span", {}, "Format"), this.formats),
      input("One of", "sample", { type: "number", min: "1", value: "1" }),
      input("At most a second", "rate", { type: "number", min: "1", max: "1000", value: "50" }),
      h("label", { class: "check" }, h("input", { type: "checkbox", name: "payload", value: "1" }), "Payloads"),
      h("div", { class: "buttons" }, clear, this.toggle),
    );
  }

  /** The formats are those of the server. */
  #begin() {
    const known = [...this.formats.options].map((each) => each.value);
    const formats = Object.keys(this.app.server.latest?.formats ?? {}).filter((each) => !known.includes(each));
    this.formats.append(...formats.map((each) => new Option(each, each)));
    this.draw();
  }

  #submit(event) {
    event.preventDefault();
    if (this.#stream) {
      this.#stop();
      return;
    }
    const wanted = Object.fromEntries([...new FormData(event.target)].filter(([, value]) => value !== ""));
    if (wanted.sample === "1") {
      delete wanted.sample;
    }
    this.#stream = new EventStream(this.app.api, "tap", {
      parameters: wanted,
      onEvents: (events) => this.#take(events),
      onState: (state) => this.#tell(state),
    });
    this.#show();
  }

  #stop() {
    this.#stream?.stop();
    this.#stream = null;
    this.#show();
    setText(this.state, "");
  }

  #show() {
    setText(this.toggle, this.#stream ? "Stop" : "Start");
    this.toggle.classList.toggle("main", !this.#stream);
  }

  #tell({ state, problem }) {
    const words = {
      connecting: "Starting…",
      live: "Objects that pass are shown.",
      waiting: "The server does not answer; it is tried again.",
    };
    if (state === "refused" || (problem && problem.status >= 400 && problem.status < 500)) {
      this.#stop();
      this.app.notices.tell(problem.message, "failed");
    } else {
      setText(this.state, words[state] ?? "");
    }
  }

  #take(events) {
    for (const { event, data } of events) {
      const found = JSON.parse(data);
      if (event === "skipped") {
        this.#skipped += found.count;
      } else {
        this.#number += 1;
        this.objects.push({ ...found, number: this.#number });
      }
    }
    if (this.objects.length > KEPT * 1.25) {
      this.objects.splice(0, this.objects.length - KEPT);
    }
    this.draw();
  }

  #draw() {
    const skipped = this.#skipped ? `, ${count(this.#skipped)} skipped` : "";
    this.amount(this.objects.length ? `the last ${count(this.objects.length)}${skipped}` : "");
    this.table.rows = [...this.objects].reverse();
  }
}
