/**
 * A line chart over time, in SVG: one to three lines, a shared cursor over all charts, and a sentence for those who do
 * not see it. Dragging over it chooses a range of time.
 */

import { fill, h, s, setText } from "./dom.js";
import { eachFrame, Topic } from "./frame.js";
import { duration, moment } from "./format.js";

/** In rem. */
const MARGIN = { top: 0.4, right: 0.15, bottom: 1.15, left: 3 };
/** A line goes on after so many seconds without a value, or after so many intervals. */
const QUIET = 10;
const QUIET_INTERVALS = 3;
/** Less than so many pixels are a click and no range. */
const LEAST_DRAG = 8;
/** Pixels from a mark at which the cursor tells of it. */
const NEAR = 5;
const MARKS = {
  started: "server started",
  reloaded: "configuration reloaded",
  "reload-failed": "reload failed",
  "clock-set": "clock was set",
};

/**
 * The moment that the pointer is at, in milliseconds, over whichever chart; `null` if over none. And the moment at which
 * a drag began.
 */
export class Cursor {
  constructor() {
    this.changed = new Topic();
    this.time = null;
    this.from = null;
  }

  set(time, from = this.from) {
    this.time = time;
    this.from = from;
    this.changed.tell();
  }
}

export class Chart {
  #width = 0;
  #height = 0;
  #shown = { entries: [], from: 0, until: 1, marks: [], isLive: false };
  #dragged = null;

  /**
   * @param {object} options `title`; `lines`: `{label, value(entry), kind}`, where `kind` is a class, `main` or `other`;
   *   `write(number)`, for values; `least`, what the axis shows at least; `cursor`; `zoom(from, until)` is called with
   *   the range that somebody has chosen, in milliseconds.
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
    this.marks = s("g", { class: "marks" });
    this.mark = s("line", { class: "cursor", visibility: "hidden" });
    this.chosen = s("rect", { class: "chosen", visibility: "hidden" });
    this.when = s("text", { class: "when" });
    this.picture = s(
      "svg",
      {
        role: "img",
        onpointermove: (event) => this.#hover(event),
        onpointerleave: () => this.#leave(),
        onpointerdown: (event) => this.#press(event),
        onpointerup: (event) => this.#release(event),
        onpointercancel: () => this.#drop(),
      },
      this.grid,
      this.chosen,
      this.area,
      this.marks,
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

  /**
   * Show a range of time.
   *
   * @param {object} shown `entries`, the oldest first; `from` and `until` in milliseconds; `marks`, `{time, kind}`;
   *   `isLive` if `until` is the present.
   */
  show(shown) {
    this.#shown = shown;
    this.draw();
  }

  #x(time) {
    const { from, until } = this.#shown;
    const room = this.#width - this.margin.left - this.margin.right;
    return this.margin.left + (room * (time - from)) / (until - from);
  }

  #time(x) {
    const { from, until } = this.#shown;
    const room = this.#width - this.margin.left - this.margin.right;
    return from + (Math.min(1, Math.max(0, (x - this.margin.left) / room)) * (until - from));
  }

  #draw() {
    if (this.#width < this.margin.left + 20) {
      return;
    }
    const { from, until } = this.#shown;
    const entries = this.#shown.entries.filter((entry) => entry.time >= from && entry.time <= until);
    const { lines } = this.options;
    const highest = Math.max(
      this.options.least,
      ...entries.flatMap((each) => lines.map((line) => line.value(each) || 0)),
    );
    const top = ceiling(highest, this.options.base);
    const y = (value) => this.margin.top + (this.#height - this.margin.top - this.margin.bottom) * (1 - value / top);
    const bottom = this.#height - this.margin.bottom;
    this.mark.setAttribute("y1", this.margin.top);
    this.mark.setAttribute("y2", bottom);
    this.chosen.setAttribute("y", this.margin.top);
    this.chosen.setAttribute("height", Math.max(0, bottom - this.margin.top));
    this.when.setAttribute("y", this.#height - 3);
    this.picture.setAttribute("viewBox", `0 0 ${this.#width} ${this.#height}`);
    this.#drawGrid(top, y);
    this.#drawMarks(bottom);
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
        this.#label(part),
      ),
    );
    fill(this.grid, rows, times);
  }

  /** What the axis says at its beginning, its middle and its end. */
  #label(part) {
    const { from, until, isLive } = this.#shown;
    if (!isLive) {
      return moment(from + part * (until - from));
    }
    return part === 1 ? "now" : back(((until - from) / 1000) * (1 - part));
  }

  #drawMarks(bottom) {
    const { marks, from, until } = this.#shown;
    const shown = marks.filter(({ time }) => time >= from && time <= until);
    fill(
      this.marks,
      shown.map(({ time, kind }) => {
        const x = this.#x(time).toFixed(1);
        const line = s("line", { x1: x, x2: x, y1: this.margin.top, y2: bottom });
        const foot = s("path", { d: `M${x} ${bottom}l-3.5 5h7z` });
        return s("g", { class: kind }, s("title", {}, `${MARKS[kind] ?? kind}, ${moment(time)}`), line, foot);
      }),
    );
  }

  #path(entries, line, y, closed) {
    let path = "";
    let first = null;
    let last = null;
    let time = Infinity;
    const quiet = (entry) => 1000 * Math.max(QUIET, QUIET_INTERVALS * (entry.seconds ?? 1));
    const close = () => (closed && last !== null ? `L${last} ${y(0)}L${first} ${y(0)}Z` : "");
    for (const entry of entries) {
      const value = line.value(entry);
      if (entry.time - time > quiet(entry) || entry.isGap) {
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

  #at(event) {
    return event.clientX - this.picture.getBoundingClientRect().left;
  }

  #hover(event) {
    const x = this.#at(event);
    this.options.cursor.set(x >= this.margin.left || this.#dragged !== null ? this.#time(x) : null);
  }

  #leave() {
    if (this.#dragged === null) {
      this.options.cursor.set(null);
    }
  }

  #press(event) {
    const x = this.#at(event);
    if (event.button === 0 && this.options.zoom && x >= this.margin.left) {
      this.#dragged = x;
      this.picture.setPointerCapture(event.pointerId);
      this.options.cursor.set(this.#time(x), this.#time(x));
    }
  }

  #release(event) {
    const from = this.#dragged;
    const x = this.#at(event);
    this.#drop();
    if (from !== null && Math.abs(x - from) >= LEAST_DRAG) {
      this.options.zoom(this.#time(Math.min(from, x)), this.#time(Math.max(from, x)));
    }
  }

  #drop() {
    this.#dragged = null;
    this.options.cursor.set(null, null);
  }

  /** Show the values at the cursor, or the latest ones, and what is being chosen. */
  #point() {
    const { cursor, lines, write } = this.options;
    const { entries, from, until, marks } = this.#shown;
    const entry = cursor.time === null ? entries.at(-1) : nearest(entries, cursor.time);
    lines.forEach((line, index) => setText(this.values[index], entry ? write(line.value(entry)) : "–"));
    const shown = cursor.time !== null && entry !== undefined && entry.time >= from && entry.time <= until;
    this.mark.setAttribute("visibility", shown ? "visible" : "hidden");
    this.#choose();
    if (!shown) {
      setText(this.when, "");
      return;
    }
    const x = this.#x(entry.time);
    const mark = marks.find(({ time }) => Math.abs(this.#x(time) - this.#x(cursor.time)) < NEAR);
    setText(this.when, mark ? `${moment(mark.time)} ${MARKS[mark.kind] ?? mark.kind}` : moment(entry.time));
    this.mark.setAttribute("x1", x);
    this.mark.setAttribute("x2", x);
    const side = mark ? 90 : 40;
    const anchor = x > this.#width - side ? "end" : x < this.margin.left + side ? "start" : "middle";
    this.when.setAttribute("x", x);
    this.when.setAttribute("text-anchor", anchor);
  }

  #choose() {
    const { time, from } = this.options.cursor;
    const chosen = time !== null && from !== null;
    this.chosen.setAttribute("visibility", chosen ? "visible" : "hidden");
    if (chosen) {
      const [left, right] = [this.#x(from), this.#x(time)].sort((one, other) => one - other);
      this.chosen.setAttribute("x", left);
      this.chosen.setAttribute("width", right - left);
    }
  }

  #sentence(entries) {
    const { title, lines, write } = this.options;
    const { from, until, isLive, marks } = this.#shown;
    const parts = lines.map((line) => {
      const values = entries.map(line.value).filter(Number.isFinite);
      return values.length
        ? `${line.label} ${write(values.at(-1))}, at most ${write(Math.max(...values))}`
        : `${line.label}: none`;
    });
    const range = isLive ? `last ${duration((until - from) / 1000)}` : `${moment(from)} to ${moment(until)}`;
    const told = marks.filter(({ time }) => time >= from && time <= until);
    const events = told.map(({ time, kind }) => `${MARKS[kind] ?? kind} at ${moment(time)}`);
    return `${title}, ${range}: ${[...parts, ...events.slice(-5)].join("; ")}`;
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
  const [size, unit] = [
    [86400, "d"],
    [3600, "h"],
    [60, "min"],
    [1, "s"],
  ].find(([each]) => seconds >= each) ?? [1, "s"];
  return `−${trimmed(seconds / size)} ${unit}`;
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
