/**
 * A line chart over time, in SVG: one to three lines, a shared cursor over all charts, and a sentence for those who do
 * not see it.
 */

import { fill, h, s, setText } from "./dom.js";
import { eachFrame, Topic } from "./frame.js";
import { timeOfDay } from "./format.js";

/** In rem. */
const MARGIN = { top: 0.4, right: 0.15, bottom: 1.15, left: 3 };
/** A line goes on after so many seconds without a value. */
const QUIET = 10;
/** Seconds that the axis may show, from the least. */
const SPANS = [60, 120, 300, 900, 1800, 3600];

/** The moment that the pointer is at, in milliseconds, over whichever chart; `null` if over none. */
export class Cursor {
  constructor() {
    this.changed = new Topic();
    this.time = null;
  }

  set(time) {
    this.time = time;
    this.changed.tell();
  }
}

export class Chart {
  #width = 0;
  #height = 0;
  #history = [];
  #span = 300;

  /**
   * @param {object} options `title`; `lines`: `{label, value(entry), kind}`, where `kind` is a class, `main` or `other`;
   *   `write(number)`, for values; `least`, what the axis shows at least; `cursor`.
   */
  constructor(options) {
    this.options = options;
    this.margin = inPixels(MARGIN);
    this.draw = eachFrame(() => this.#draw());
    this.#build();
    options.cursor.changed.listen(() => this.#point());
    new ResizeObserver(([{ contentRect }]) => {
      this.#width = contentRect.width;
      this.#height = contentRect.height;
      this.margin = inPixels(MARGIN);
      this.draw();
    }).observe(this.picture);
  }

  #build() {
    const { title, lines } = this.options;
    this.values = lines.map(() => h("b", {}, "–"));
    const legend = lines.map(({ label, kind }, index) =>
      h("span", { class: `legend ${kind}` }, h("i", { "aria-hidden": "true" }), label, " ", this.values[index]),
    );
    this.paths = lines.map(({ kind }) => s("path", { class: `line ${kind}` }));
    this.area = s("path", { class: "area" });
    this.grid = s("g", { class: "grid" });
    this.mark = s("line", { class: "cursor", visibility: "hidden" });
    this.when = s("text", { class: "when" });
    this.picture = s(
      "svg",
      { role: "img", onpointermove: (event) => this.#hover(event), onpointerleave: () => this.#leave() },
      this.grid,
      this.area,
      // The main line is drawn last, over the others.
      [...this.paths].reverse(),
      this.mark,
      this.when,
    );
    this.element = h(
      "figure",
      { class: "chart" },
      h("figcaption", {}, h("h3", {}, title), h("span", { class: "legends" }, legend)),
      this.picture,
    );
  }

  /** Show the entries of the last `span` seconds, or of less if there are not as many yet. */
  show(history, span) {
    this.#history = history;
    const age = history.length ? (history.at(-1).time - history[0].time) / 1000 : 0;
    this.#span = Math.min(span, SPANS.find((each) => each >= age) ?? span);
    this.draw();
  }

  get #end() {
    return this.#history.at(-1)?.time ?? Date.now();
  }

  #x(time) {
    const room = this.#width - this.margin.left - this.margin.right;
    return this.margin.left + room * (1 - (this.#end - time) / 1000 / this.#span);
  }

  #time(x) {
    const room = this.#width - this.margin.left - this.margin.right;
    return this.#end - (1 - (x - this.margin.left) / room) * this.#span * 1000;
  }

  #draw() {
    if (this.#width < this.margin.left + 20) {
      return;
    }
    const from = this.#end - this.#span * 1000;
    const entries = this.#history.filter((entry) => entry.time >= from);
    const { lines } = this.options;
    const highest = Math.max(
      this.options.least,
      ...entries.flatMap((each) => lines.map((line) => line.value(each) || 0)),
    );
    const top = ceiling(highest, this.options.base);
    const y = (value) => this.margin.top + (this.#height - this.margin.top - this.margin.bottom) * (1 - value / top);
    this.mark.setAttribute("y1", this.margin.top);
    this.mark.setAttribute("y2", this.#height - this.margin.bottom);
    this.when.setAttribute("y", this.#height - 3);
    this.picture.setAttribute("viewBox", `0 0 ${this.#width} ${this.#height}`);
    this.#drawGrid(top, y);
    lines.forEach((line, index) => {
      this.paths[index].setAttribute("d", this.#path(entries, line, y, false));
    });
    this.area.setAttribute("d", this.#path(entries, lines[0], y, true));
    this.#point();
    this.picture.setAttribute("aria-label", this.#sentence(entries));
  }

  #drawGrid(top, y) {
    const { write } = this.options;
    const right = this.#width - this.margin.right;
    const rows = [0, 0.5, 1].map((part) => [
      s("line", { x1: this.margin.left, x2: right, y1: y(part * top), y2: y(part * top), class: part ? "" : "base" }),
      s("text", { x: this.margin.left - 6, y: y(part * top) + 4, "text-anchor": "end" }, write(part * top)),
    ]);
    const steps = this.#width < 300 ? [0, 1] : [0, 0.5, 1];
    const anchors = { 0: "start", 0.5: "middle", 1: "end" };
    const times = steps.map((part) =>
      s(
        "text",
        { x: this.margin.left + part * (right - this.margin.left), y: this.#height - 3, "text-anchor": anchors[part] },
        part === 1 ? "now" : back(this.#span * (1 - part)),
      ),
    );
    fill(this.grid, rows, times);
  }

  #path(entries, line, y, closed) {
    let path = "";
    let first = null;
    let last = null;
    let time = Infinity;
    const close = () => (closed && last !== null ? `L${last} ${y(0)}L${first} ${y(0)}Z` : "");
    for (const entry of entries) {
      const value = line.value(entry);
      if (entry.time - time > QUIET * 1000 || entry.isGap) {
        path += close();
        last = null;
      }
      if (!Number.isFinite(value)) {
        // Nothing happened in that second.
        continue;
      }
      time = entry.time;
      const x = this.#x(time).toFixed(1);
      const place = `${x} ${y(value).toFixed(1)}`;
      // A value between two gaps is a dot.
      path += last === null ? `M${place}h0` : `L${place}`;
      first = last === null ? x : first;
      last = x;
    }
    return path + close();
  }

  #hover(event) {
    const x = event.clientX - this.picture.getBoundingClientRect().left;
    this.options.cursor.set(x >= this.margin.left ? this.#time(x) : null);
  }

  #leave() {
    this.options.cursor.set(null);
  }

  /** Show the values at the cursor, or the latest ones. */
  #point() {
    const { cursor, lines, write } = this.options;
    const entry = cursor.time === null ? this.#history.at(-1) : nearest(this.#history, cursor.time);
    lines.forEach((line, index) => setText(this.values[index], entry ? write(line.value(entry)) : "–"));
    const shown = cursor.time !== null && entry !== undefined;
    this.mark.setAttribute("visibility", shown ? "visible" : "hidden");
    setText(this.when, shown ? timeOfDay(entry.time) : "");
    if (shown) {
      const x = this.#x(entry.time);
      this.mark.setAttribute("x1", x);
      this.mark.setAttribute("x2", x);
      this.when.setAttribute("x", x);
      this.when.setAttribute(
        "text-anchor",
        x > this.#width - 40 ? "end" : x < this.margin.left + 40 ? "start" : "middle",
      );
    }
  }

  #sentence(entries) {
    const { title, lines, write } = this.options;
    const parts = lines.map((line) => {
      const values = entries.map(line.value).filter(Number.isFinite);
      return values.length
        ? `${line.label} ${write(values.at(-1))}, at most ${write(Math.max(...values))}`
        : `${line.label}: none`;
    });
    return `${title}, last ${Math.round(this.#span / 60)} minutes: ${parts.join("; ")}`;
  }
}

function inPixels(margin) {
  const rem = parseFloat(getComputedStyle(document.documentElement).fontSize);
  return Object.fromEntries(Object.entries(margin).map(([side, length]) => [side, length * rem]));
}

/** The least round number that is not lower: 1, 2, 4, 5 or 8 of a power of ten, or a power of two. */
function ceiling(value, base = 10) {
  if (base === 2) {
    return 2 ** Math.ceil(Math.log2(value));
  }
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 4, 5, 8, 10].find((step) => step * power >= value * 0.9999) * power;
}

function back(seconds) {
  return seconds >= 60 ? `−${trimmed(seconds / 60)} min` : `−${seconds} s`;
}

function trimmed(number) {
  return Number.isInteger(number) ? number : number.toFixed(1);
}

function nearest(history, time) {
  let low = 0;
  let high = history.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (history[middle].time < time) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  const before = history[low - 1];
  return before && time - before.time < history[low].time - time ? before : history[low];
}
