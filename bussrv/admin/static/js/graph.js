/**
 * This server and the servers around it as a picture: linked ones on a ring, those that only they know on another one.
 * The table beside it says the same in words.
 */

import { fill, s } from "./dom.js";
import { short } from "./names.js";

const WIDE = 640;
const NARROW = 380;
const MOST = 24;

/** How many servers a ring has room for, and how long their names may be. */
const LETTERS = 18;

export class Graph {
  constructor() {
    this.element = s("svg", { class: "graph", role: "img", "aria-label": "No links" });
  }

  /**
   * @param {string} here the routing id of this server.
   * @param {object[]} links as the server lists them.
   * @param {function} open is called with the link whose server was chosen.
   */
  show(here, links, open) {
    const shown = links.slice(0, MOST);
    const known = new Set([here, ...links.map((link) => link.routing_id)]);
    const beyond = shown.flatMap((link) =>
      (link.neighbors ?? []).filter((each) => !known.has(each)).map((each) => ({ routing_id: each, by: link })),
    );
    const outer = uniform(beyond);
    const width = this.element.clientWidth < NARROW + 100 ? NARROW : WIDE;
    const room = { width, height: shown.length > 6 || outer.size ? 330 : 270 };
    const centre = { x: room.width / 2, y: room.height / 2 };
    const places = around(shown, centre, outer.size ? 0.6 : 0.78, room);
    this.element.setAttribute("viewBox", `0 0 ${room.width} ${room.height}`);
    const edges = [];
    const nodes = [];
    shown.forEach((link, index) => {
      edges.push(edge(centre, places[index], link.state));
      const name = link.routing_id ?? link.address;
      nodes.push(
        server(places[index], name, `node ${link.state}`, { open: () => open(link), sessions: link.sessions, centre }),
      );
    });
    edges.push(...between(shown, places));
    this.#drawOuter(outer, { places, shown, centre, room, edges, nodes });
    nodes.push(server(centre, here, "node here"));
    fill(this.element, edges, nodes);
    this.element.setAttribute("aria-label", sentence(links));
  }

  #drawOuter(outer, { places, shown, centre, room, edges, nodes }) {
    const names = [...outer.keys()].slice(0, MOST);
    for (const [index, routing_id] of names.entries()) {
      const inner = outer.get(routing_id).map((link) => places[shown.indexOf(link)]);
      const place = outward(inner[0], centre, room, index);
      edges.push(...inner.map((each) => edge(each, place, "beyond")));
      nodes.push(server(place, routing_id, "node beyond", { centre }));
    }
  }
}

function uniform(beyond) {
  const found = new Map();
  for (const { routing_id, by } of beyond) {
    found.set(routing_id, [...(found.get(routing_id) ?? []), by]);
  }
  return found;
}

function around(links, centre, share, { width, height }) {
  const step = (2 * Math.PI) / Math.max(1, links.length);
  // Two links lie left and right of the server; an odd number has one on top.
  const start = links.length === 2 ? Math.PI : -Math.PI / 2;
  return links.map((_, index) => ({
    x: centre.x + Math.cos(start + index * step) * (width / 2 - 70) * share,
    y: centre.y + Math.sin(start + index * step) * (height / 2 - 34) * share,
  }));
}

function outward(inner, centre, { width, height }, index) {
  const angle = Math.atan2(inner.y - centre.y, inner.x - centre.x) + ((index % 3) - 1) * 0.42;
  return {
    x: centre.x + Math.cos(angle) * (width / 2 - 60),
    y: centre.y + Math.sin(angle) * (height / 2 - 34),
  };
}

function between(links, places) {
  const found = [];
  links.forEach((one, index) => {
    links.slice(index + 1).forEach((other, further) => {
      if ((one.neighbors ?? []).includes(other.routing_id)) {
        found.push(edge(places[index], places[index + 1 + further], "beyond"));
      }
    });
  });
  return found;
}

function edge(from, to, state) {
  return s("line", { class: `edge ${state}`, x1: from.x, y1: from.y, x2: to.x, y2: to.y });
}

/** A server: its name is on the side away from the centre, where no line passes. */
function server(place, routing_id, kind, { open, sessions, centre = place } = {}) {
  const circle = s("circle", { cx: place.x, cy: place.y, r: kind.includes("here") ? 12 : 8 });
  const rows = [{ kind: "", text: short(routing_id, LETTERS) }];
  if (sessions) {
    rows.push({ kind: "soft", text: `${sessions} sessions` });
  }
  const top = place.y < centre.y - 1 ? place.y - 17 * rows.length : place.y + 28;
  const labels = rows.map((row, index) =>
    s("text", { class: row.kind, x: place.x, y: top + 17 * index, "text-anchor": "middle" }, row.text),
  );
  // For the keyboard and for screen readers there is the table: twice would be once too often.
  const attributes = open ? { class: `${kind} opens`, onclick: open } : { class: kind };
  return s("g", attributes, s("title", {}, short(routing_id)), circle, labels);
}

function sentence(links) {
  if (links.length === 0) {
    return "No links";
  }
  const up = links.filter((link) => link.state === "up").length;
  return `This server and ${links.length} linked ones, of which ${up} are up. The table says which.`;
}
