/**
 * One service: who provides it and who is subscribed to it, format by format.
 */

import { Changes } from "../changes.js";
import { fill, h } from "../dom.js";
import { ago } from "../format.js";
import { name } from "../names.js";
import { badge, button, nothing, section } from "../parts.js";
import { Poll } from "../poll.js";
import { interest } from "../words.js";

const PAUSE = 2000;
/** Sessions of a side that are listed. */
const MOST = 200;

export function servicePanel(app, service) {
  const element = h("div");
  let etag = null;

  async function ask() {
    const found = await app.api.get(`services/${encodeURIComponent(service)}`, { etag });
    if (found) {
      etag = found.etag;
      fill(element, sides(app, found));
    }
  }

  function fail(error) {
    const gone = error.status === 404;
    etag = null;
    fill(element, nothing(gone ? "Nobody provides it" : "Not to be seen", gone ? "and nobody is subscribed to it any more." : error.message));
  }

  const poll = new Poll(ask, PAUSE, fail);
  return { title: name(service, 80), element, start: () => poll.start(), stop: () => poll.stop() };
}

function sides(app, found) {
  return [
    section("Provided by", found.providers.length, byFormat(app, found.providers, () => null, "Nobody provides it.")),
    section(
      "Subscribed",
      found.subscribers.length,
      byFormat(app, found.subscribers, (each) => dropping(app, found.service, each), "Nobody is subscribed to it."),
    ),
  ];
}

function byFormat(app, sessions, further, none) {
  if (sessions.length === 0) {
    return h("p", { class: "soft" }, none);
  }
  const groups = new Map();
  for (const each of sessions.slice(0, MOST)) {
    groups.set(each.protocol, [...(groups.get(each.protocol) ?? []), each]);
  }
  const lists = [...groups].map(([protocol, members]) => [
    h("h4", {}, badge(protocol), h("span", { class: "soft" }, members.length)),
    h("ul", { class: "links" }, members.map((each) => row(app, each, further(each)))),
  ]);
  const left = sessions.length - MOST;
  return [lists, left > 0 ? h("p", { class: "soft" }, `and ${left} more; Sessions has all of them`) : null];
}

function row(app, each, further) {
  const details = [each.home ? `of ${each.home}` : null, interest(each.interest), each.since ? `for ${ago(each.since)}` : null];
  return h(
    "li",
    {},
    h("a", { href: app.router.address(app.router.view, { session: each.session }) }, name(each.routing_id || each.session, 60)),
    " ",
    h("span", { class: "soft" }, name(details.filter(Boolean).join(" · "))),
    further,
  );
}

function dropping(app, service, each) {
  return app.may("write") ? button("Drop…", () => new Changes(app).dropLease({ ...each, service }), "quiet") : null;
}
