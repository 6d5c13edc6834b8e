/**
 * One link to another server, and what became of it lately.
 */

import { fill, h } from "../dom.js";
import { eachFrame } from "../frame.js";
import { count, many, timeOfDay } from "../format.js";
import { name } from "../names.js";
import { badge, facts, nothing, section, since, time } from "../parts.js";
import { gravity, line, remark } from "../words.js";

/** Why a link is down; null: it is not. */
export const why = (link) => (link.state === "down" ? (link.reason ?? "it was never up") : null);

/** The sessions of the server itself: those that it advertises for others count there. */
export function own(app, { routing_id: id, sessions }) {
  return app.net.latest?.servers.find(({ server }) => server === id)?.sessions ?? sessions;
}

export const STATES = { up: "good", dialing: "odd", down: "bad" };

export function linkPanel(app, id) {
  const element = h("div");
  const draw = eachFrame(() => fill(element, content(app, id)));
  let unlisten = () => {};

  function start() {
    const all = [app.links, app.net, app.records].map((each) => each.changed.listen(draw));
    unlisten = () => all.forEach((each) => each());
    draw();
  }

  return { title: name(id, 60), element, start, stop: () => unlisten() };
}

function content(app, id) {
  const link = app.links.items.find((each) => (each.routing_id ?? each.address) === id);
  const lately = app.records.list
    .filter((record) => record.event.startsWith("link.") && record.routing_id === id)
    .slice(-50);
  return [
    link ? about(app, link) : nothing("No such link now"),
    section(
      "Lately",
      lately.length,
      lately.length ? history(lately) : h("p", { class: "soft" }, "Nothing lately."),
    ),
  ];
}

function about(app, link) {
  return facts([
    ["State", badge(link.state, STATES[link.state])],
    ["Address", name(link.address)],
    ["Dialed", link.dialed ? "by this server" : link.address ? "by the other one" : null],
    ["Since", link.since ? since(link.since) : null],
    ["Lost", link.lost && link.reason ? since(link.lost) : null],
    ["Reason", why(link)],
    ["Sessions", count(own(app, link))],
    ["Known over it", many(link.sessions, "session")],
    ["Its neighbours", link.neighbors?.length ? link.neighbors.map((each) => [name(each, 60), h("br")]) : "none"],
  ]);
}

function history(records) {
  return h(
    "ol",
    { class: "timeline" },
    records.map((record) =>
      h(
        "li",
        { class: gravity(record) },
        time(timeOfDay(record.time, true), record.time),
        h("div", {}, line(record), h("div", { class: "soft" }, remark(record))),
      ),
    ),
  );
}
