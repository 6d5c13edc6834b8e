/**
 * The server at a glance: figures, charts over time, what needs a look, and what happens right now.
 */

import { Chart } from "../chart.js";
import { fill, h, setText } from "../dom.js";
import { eachFrame } from "../frame.js";
import { KEPT } from "../figures.js";
import { agoBriefly, brief, bytes, count, dateAndZone, duration, moment, seconds } from "../format.js";
import { History } from "../history.js";
import { name, OWN } from "../names.js";
import { button } from "../parts.js";
import { Poll } from "../poll.js";
import { spanChoice } from "../spans.js";
import { called, gravity, object, remark, title } from "../words.js";
import { frame } from "./frame.js";
import { colour } from "./incidents.js";

const CALM = 500;
/** Bytes that wait for slow readers and are worth a look. */
const MUCH = 1 << 24;
/** Less are shown where there is little room. */
const LINES = 16;
/** So many formats are named beside the number of sessions. */
const FORMATS = 2;
/** A range that somebody chose is at least so long, in milliseconds. */
const LEAST_RANGE = 10000;
/** Milliseconds from one look at the past to the next one. */
const PAST_PAUSE = 10000;

export function overviewView(app) {
  const tiles = tilesOf(app);
  const past = new History(app.api);
  const charts = chartsOf(app.cursor, (from, until) => {
    const middle = (from + until) / 2;
    const half = Math.max(LEAST_RANGE, until - from) / 2;
    choose({ from: middle - half, until: middle + half });
  });
  const span = spanChoice("Time shown", app.range.span, (value) => choose({ span: value }));
  const last = h("label", { class: "inline" }, "Last ", span);
  const chosen = h("span", { class: "soft chosen-range" });
  const backToNow = button("Back to now", () => choose({ span: Number(span.value) }));
  const poll = new Poll(() => past.ask(...asked(app.range)), PAST_PAUSE);
  const lists = listsOf(app);
  const verdict = h("a", { class: "verdict calm", href: "#/incidents" }, h("b", {}, "…"));
  const tileList = h("div", { class: "tiles" });
  const content = h(
    "div",
    { class: "scroll" },
    verdict,
    tileList,
    h(
      "div",
      { class: "charts" },
      charts.map((chart) => chart.element),
    ),
    h(
      "div",
      { class: "lists" },
      lists.map((list) => list.element),
    ),
  );
  const view = frame({
    title: "Overview",
    tools: [chosen, backToNow, last],
    content,
    fixed: true,
  });

  const drawFigures = eachFrame(() => {
    if (view.element.isConnected) {
      drawVerdict(verdict, app);
      drawTiles(tileList, tiles);
      const shown = shownOf(app, past);
      charts.forEach((chart) => chart.show(shown));
    }
  });

  function choose(range) {
    app.range = range;
    const isLive = range.span !== undefined;
    last.hidden = !isLive;
    backToNow.hidden = isLive;
    setText(chosen, isLive ? "" : `${moment(range.from)} – ${moment(range.until)}`);
    lookBack();
    drawFigures();
  }

  /** Ask for the past as long as it is shown. */
  function lookBack() {
    poll.stop();
    if (!isOfFigures(app.range)) {
      poll.start();
    }
  }

  choose(app.range);
  const drawLists = eachFrame(() => view.element.isConnected && lists.forEach((list) => list.draw()), CALM);
  app.figures.changed.listen(drawFigures);
  past.changed.listen(drawFigures);
  for (const each of [app.records, app.closed, app.denied, app.health]) {
    each.changed.listen(drawLists);
  }
  return {
    ...view,
    show() {
      lookBack();
      drawFigures();
      drawLists();
    },
    hide: () => poll.stop(),
  };
}

/** Whether the page itself has the figures of a range. */
function isOfFigures({ span }) {
  return span !== undefined && span <= KEPT;
}

/** The range as the server takes it. */
function asked({ span, from, until }) {
  return span === undefined ? [new Date(from).toISOString(), new Date(until).toISOString()] : [-span, undefined];
}

/** What all charts show now. */
function shownOf(app, past) {
  const { range, figures } = app;
  const { entries, marks } = past;
  if (isOfFigures(range)) {
    return figures.shown(range.span);
  }
  if (range.span === undefined) {
    return { entries, marks, ...range, isLive: false };
  }
  const { until } = figures.shown();
  return { entries, marks, from: until - range.span * 1000, until, isLive: true };
}

function tilesOf(app) {
  const latest = () => app.figures.latest ?? {};
  const now = () => app.figures.now;
  const lately = (name) => app.figures.lately(name);
  return [
    tile(
      "Sessions",
      "sessions",
      () => count(now().sessions ?? NaN),
      () => split(latest().sessions) + awayOf(latest().away),
    ),
    tile(
      "Services",
      "services",
      () => count(latest().services),
      () => `${count(latest().subscriptions)} subscriptions`,
    ),
    tile(
      "Links",
      "links",
      () => count(latest().links),
      () => linksOf(app.links.items),
      () => (app.links.items.some((link) => link.state !== "up") ? 2 : 0),
    ),
    tile(
      "Objects in",
      "sessions",
      () => perSecond(now().objects_in),
      () => `${bytesPerSecond(now().bytes_in)}`,
    ),
    tile(
      "Objects out",
      "sessions",
      () => perSecond(now().objects_out),
      () => `${bytesPerSecond(now().bytes_out)}`,
    ),
    tile(
      "Delivery, p99",
      "slow",
      () => seconds(lately("delivery99")),
      () => `p50 ${seconds(lately("delivery50"))}`,
    ),
    tile(
      "Journal sync, p99",
      "journal",
      () => seconds(lately("sync99")),
      () => `p50 ${seconds(lately("sync50"))}`,
      () => (latest().degraded?.some((each) => each === "journal" || each === "disk") ? 3 : 0),
    ),
    tile(
      "Waiting",
      "slow",
      () => bytes(latest().waiting_bytes),
      () => "for slow readers",
      () => (latest().waiting_bytes > MUCH ? 1 : 0),
    ),
  ];
}

/** The verdict of the server in a sentence: what its health says comes first if it cannot serve. */
function drawVerdict(element, app) {
  const { verdict, gravest, incidents } = app.figures.latest ?? {};
  const isDown = app.health.state === "down";
  const failed = app.health.checks.filter(({ status }) => status === "failed").map(({ message }) => message);
  setText(element.firstChild, isDown ? `Not ready: ${failed.join("; ")}.` : (verdict ?? "…"));
  const isWell = verdict && !incidents && app.live.goneSince === null;
  element.className = `verdict ${isDown ? "bad" : isWell ? "good" : (incidents && colour(gravest)) || "calm"}`;
}

/** Tiles by weight: those that something is amiss with come first, and have a colour. */
function drawTiles(list, tiles) {
  tiles.forEach((each) => each.draw());
  const wanted = [...tiles].sort((one, other) => other.weight - one.weight);
  const key = wanted.map((each) => each.label).join();
  if (list.shownOrder !== key) {
    list.shownOrder = key;
    fill(
      list,
      wanted.map((each) => each.element),
    );
  }
}

function tile(label, view, value, further, weigh = () => 0) {
  const number = h("b", {}, "–");
  const line = h("small", {}, "");
  const element = h("a", { class: "tile", href: `#/${view}` }, h("span", {}, label), number, line);
  return {
    element,
    label,
    weight: 0,
    draw() {
      this.weight = weigh();
      element.className = `tile ${colour(this.weight)}`;
      setText(number, value());
      setText(line, further());
    },
  };
}

function split(sessions = {}) {
  const rows = Object.entries(sessions).filter(([, number]) => number > 0).sort(([, one], [, other]) => other - one);
  const others = rows.slice(FORMATS).reduce((sum, [, number]) => sum + number, 0);
  const first = rows.slice(0, FORMATS).map(([protocol, number]) => (protocol === OWN ? "the server" : `${protocol} ${brief(number)}`));
  const parts = [...first, others && `${brief(others)} others`].filter(Boolean);
  return parts.map(whole).join(" · ") || "nobody yet";
}

function awayOf(away = {}) {
  const number = Object.values(away).reduce((sum, each) => sum + each, 0);
  return number ? ` · ${whole(`${brief(number)} away`)}` : "";
}

/** A text in which no line ends. */
function whole(text) {
  return text.replaceAll(" ", "\u00a0");
}

function linksOf(items) {
  const down = items.filter((link) => link.state !== "up").length;
  return items.length === 0 ? "to no server" : down ? `${down} not up` : "all up";
}

function percent(number) {
  return Number.isFinite(number) ? `${number < 10 ? number.toFixed(1) : number.toFixed(0)} %` : "–";
}

function perSecond(number) {
  return Number.isFinite(number) ? `${brief(number)}/s` : "–";
}

function bytesPerSecond(number) {
  return Number.isFinite(number) ? `${bytes(number)}/s` : "–";
}

function chartsOf(cursor, zoom) {
  const two = (main, other) => [
    { ...main, kind: "main" },
    { ...other, kind: "other" },
  ];
  const times = (from) =>
    two({ label: "p99", value: (entry) => entry[`${from}99`] }, { label: "p50", value: (entry) => entry[`${from}50`] });
  const ways = (from) =>
    two(
      { label: "out", value: (entry) => entry[`${from}_out`] },
      { label: "in", value: (entry) => entry[`${from}_in`] },
    );
  const one = (label, value) => [{ label, value, kind: "main" }];
  return [
    { title: "Objects / s", lines: ways("objects"), write: brief, least: 10 },
    { title: "Bytes / s", lines: ways("bytes"), write: bytes, least: 1024, base: 2 },
    { title: "Delivery", lines: times("delivery"), write: seconds, least: 0.001 },
    { title: "Journal sync", lines: times("sync"), write: seconds, least: 0.001 },
    { title: "Sessions", lines: one("present", (entry) => entry.sessions), write: brief, least: 10 },
    { title: "Waiting", lines: one("waiting", (entry) => entry.waiting), write: bytes, least: 1024, base: 2 },
    { title: "Denials / min", lines: one("denied", (entry) => entry.denials_a_minute), write: brief, least: 10 },
    { title: "CPU", lines: one("of one core", (entry) => entry.cpu * 100), write: percent, least: 10 },
    { title: "Memory", lines: one("in use", (entry) => entry.memory), write: bytes, least: 1 << 26, base: 2 },
    {
      title: "Services",
      lines: two(
        { label: "subscriptions", value: (entry) => entry.subscriptions },
        { label: "services", value: (entry) => entry.services },
      ),
      write: brief,
      least: 10,
    },
    { title: "Lost on links / min", lines: one("lost", (entry) => entry.lost_a_minute), write: brief, least: 10 },
    { title: "Descriptors", lines: one("open", (entry) => entry.descriptors), write: brief, least: 10 },
  ].map((options) => new Chart({ ...options, cursor, zoom }));
}

function listsOf(app) {
  const session = (record) =>
    app.router.address("overview", record.session ? { session: record.session } : { record: record.seq });
  return [
    list({
      title: "Unusual ends",
      view: "closed",
      rows: () => app.closed.list.filter(gravity),
      none: "No session ended in an unusual way lately.",
      line: (record) => ({
        href: session(record),
        when: record.time,
        first: called(record),
        second: `${record.reason} after ${duration(record.duration / 1e6)}`,
        kind: "odd",
      }),
    }),
    list({
      title: "Denied",
      view: "denied",
      rows: () => app.denied.list,
      none: "Nothing was denied lately.",
      line: (record) => ({
        href: session(record),
        when: record.time,
        first: called(record),
        second: [record.action ?? "log in", record.target, record.reason].filter(Boolean).join(" · "),
        kind: "odd",
      }),
    }),
    list({
      title: "Events",
      view: "events",
      rows: () => app.records.list,
      none: "No events yet.",
      line: (record) => ({
        href: app.router.address("overview", { record: record.seq }),
        when: record.time,
        first: [title(record), object(record)].filter(Boolean).join(" "),
        second: [called(record), remark(record)].filter(Boolean).join(" · "),
        kind: gravity(record),
      }),
    }),
  ];
}

/** The latest few of something: elements are kept from draw to draw, so that the keyboard's focus is. */
function list({ title: heading, view, rows, none, line }) {
  const lines = Array.from({ length: LINES }, () => newLine());
  const empty = h("p", { class: "soft" }, none);
  const all = h(
    "ul",
    {},
    lines.map((each) => each.element),
  );
  const element = h("section", { class: "list" }, h("h2", {}, h("a", { href: `#/${view}` }, heading)), all, empty);

  function draw() {
    const latest = rows().slice(-LINES).reverse();
    empty.hidden = latest.length > 0;
    all.hidden = latest.length === 0;
    lines.forEach((each, index) => each.draw(latest[index] ? line(latest[index]) : null));
  }

  return { element, draw };
}

function newLine() {
  const when = h("time", { class: "since brief" });
  const first = h("b");
  const second = h("span", { class: "soft" });
  const link = h("a", {}, when, first, second);
  const element = h("li", {}, link);
  let shown = null;
  return {
    element,
    draw(content) {
      element.hidden = content === null;
      const text = JSON.stringify(content);
      if (content === null || text === shown) {
        return;
      }
      shown = text;
      link.setAttribute("href", content.href);
      link.className = content.kind;
      when.dateTime = content.when;
      when.title = dateAndZone(content.when);
      setText(when, `${agoBriefly(content.when)} ago`);
      fill(first, name(content.first, 80));
      fill(second, name(content.second, 160));
    },
  };
}
