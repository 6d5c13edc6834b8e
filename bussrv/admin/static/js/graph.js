/**
 * All servers and all links between them as a picture: this server on top, the others around a circle, so that no three
 * are in a line. The tables beside it say the same in words.
 */

import { fill, s } from "./dom.js";
import { many, seconds } from "./format.js";
import { short } from "./names.js";

const WIDE = 640;
const NARROW = 380;
/** How many servers have room, how many links have a text, and how long names may be. */
const MOST = 24;
const MOST_TEXTS = 12;
const LETTERS = 18;

export class Graph {
  constructor() {
    this.element = s("svg", { class: "graph", role: "img", "aria-label": "No links" });
  }

  /**
   * @param {object} net `here`, the routing id of this server; `servers`, as `/api/v1/net` has them; `links`, with
   *   `one`, `other`, `state`, and perhaps `round_trip` and `reason`.
   * @param {function} open is called with the routing id of the server that was chosen.
   */
  show({ here, servers, links }, open) {
    const names = [here, ...servers.map((each) => each.server).filter((each) => each && each !== here)].slice(0, MOST);
    const narrow = this.element.clientWidth < NARROW + 100;
    const room = { width: narrow ? NARROW : WIDE, height: names.length > 6 ? 360 : 280 };
    const places = around(names, room);
    const shown = links.filter(({ one, other }) => places.has(one) && places.has(other));
    const texts = shown.length <= MOST_TEXTS && !narrow;
    this.element.setAttribute("viewBox", `0 0 ${room.width} ${room.height}`);
    fill(
      this.element,
      shown.map((link) => edge(places, link, texts)),
      names.map((name) => node(places.get(name), name, servers.find((each) => each.server === name), name === here, open)),
    );
    this.element.setAttribute("aria-label", sentence(names, links));
  }
}

function around(names, { width, height }) {
  const centre = { x: width / 2, y: height / 2 };
  return new Map(
    names.map((name, index) => {
      const angle = -Math.PI / 2 + (index * 2 * Math.PI) / names.length;
      const x = centre.x + Math.cos(angle) * (width / 2 - 80);
      const y = centre.y + Math.sin(angle) * (height / 2 - 46);
      return [name, { x, y, isAbove: y < centre.y - 1 }];
    }),
  );
}

function edge(places, link, withText) {
  const [from, to] = [places.get(link.one), places.get(link.other)];
  const line = s("line", { class: `edge ${link.state}`, x1: from.x, y1: from.y, x2: to.x, y2: to.y });
  const text = link.state === "down" ? (link.reason ?? "never linked").replaceAll("-", " ") : link.round_trip ? seconds(link.round_trip) : "";
  const label = { class: "soft", x: (from.x + to.x) / 2, y: (from.y + to.y) / 2 + 4, "text-anchor": "middle" };
  const said = `${short(link.one)} – ${short(link.other)}: ${link.state}${text ? `, ${text}` : ""}`;
  return s("g", {}, s("title", {}, said), line, withText && text ? s("text", label, short(text, LETTERS)) : null);
}

/** A server: its name is on the side away from the centre, where no line passes. */
function node(place, name, server, isHere, open) {
  const rows = [{ kind: "", text: short(name, LETTERS) }];
  if (Number.isFinite(server?.sessions)) {
    rows.push({ kind: "soft", text: many(server.sessions, "session") });
  }
  const top = place.isAbove ? place.y - 15 - 17 * (rows.length - 1) : place.y + 27;
  const labels = rows.map((row, index) =>
    s("text", { class: row.kind, x: place.x, y: top + 17 * index, "text-anchor": "middle" }, row.text),
  );
  const kind = `node ${isHere ? "here" : (server?.status ?? "")}`;
  // For the keyboard and for screen readers there is the table: twice would be once too often.
  const attributes = isHere ? { class: kind } : { class: `${kind} opens`, onclick: () => open(name) };
  const circle = s("circle", { cx: place.x, cy: place.y, r: isHere ? 12 : 8 });
  return s("g", attributes, s("title", {}, short(name)), labels, circle);
}

function sentence(names, links) {
  if (names.length < 2) {
    return "No links";
  }
  const down = links.filter((link) => link.state === "down").length;
  return `${names.length} servers and ${links.length} links, of which ${down} are down. The tables say which.`;
}
