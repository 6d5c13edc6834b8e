/**
 * One service: who provides it and who is subscribed to it, format by format.
 */

import { Changes } from "../changes.js";
import { h, refill } from "../dom.js";
import { count } from "../format.js";
import { name } from "../names.js";
import { badge, button, nothing, section, since } from "../parts.js";
import { Poll } from "../poll.js";
import { trafficSection } from "../traffic.js";
import { called, interest } from "../words.js";

const PAUSE = 2000;
/** Sessions of a side that are listed. */
const MOST = 200;

export function servicePanel(app, service) {
  const element = h("div");
  const traffic = trafficSection(app, "service", service);
  const both = h("div", {}, element, traffic.element);
  let etag = null;

  async function ask() {
    const found = await app.api.get(`services/${encodeURIComponent(service)}`, { etag });
    if (found) {
      etag = found.etag;
      refill(element, [found, app.may("write")], () => sides(app, found));
    }
  }

  function fail(error) {
    const gone = error.status === 404;
    etag = null;
    const text = gone ? "and nobody is subscribed to it any more." : error.message;
    refill(element, text, () => nothing(gone ? "Nobody provides it" : "Not to be seen", text));
  }

  const poll = new Poll(ask, PAUSE, fail);
  const all = [poll, traffic];
  return {
    title: name(service, 80),
    element: both,
    start: () => all.forEach((each) => each.start()),
    stop: () => all.forEach((each) => each.stop()),
  };
}

function sides(app, found) {
  const drop = (each) => dropping(app, found.service, each);
  return [
    section(
      "Provided by",
      found.providers_count,
      byFormat(app, found.providers, () => null) ?? none("Nobody provides it."),
    ),
    left(found.providers_count, found.providers),
    section(
      "Subscribed",
      found.subscribers_count,
      byFormat(app, found.subscribers, drop) ?? none("Nobody is subscribed to it."),
    ),
    left(found.subscribers_count, found.subscribers),
  ];
}

function none(text) {
  return h("p", { class: "soft" }, text);
}

function left(all, named) {
  const more = all - Math.min(named.length, MOST);
  return more > 0 ? none(`and ${count(more)} more`) : null;
}

function byFormat(app, sessions, further) {
  const groups = new Map();
  for (const each of sessions.slice(0, MOST)) {
    groups.set(each.protocol, [...(groups.get(each.protocol) ?? []), each]);
  }
  const lists = [...groups].map(([protocol, members]) => [
    h("h4", {}, badge(protocol), h("span", { class: "soft" }, members.length)),
    h(
      "ul",
      { class: "links" },
      members.map((each) => row(app, each, further(each))),
    ),
  ]);
  return lists.length ? lists : null;
}

function row(app, each, further) {
  const details = [
    each.home ? `of ${each.home}` : null,
    interest(each.interest),
    each.pattern ? `by ${each.pattern}` : null,
  ];
  return h(
    "li",
    {},
    h(
      "span",
      {},
      h(
        "a",
        { href: app.router.address(app.router.view, { session: each.session }) },
        name(called(each), 60),
      ),
      " ",
      h("span", { class: "soft" }, name(details.filter(Boolean).join(" · ")), each.since ? [" ", since(each.since)] : null),
    ),
    further,
  );
}

function dropping(app, service, each) {
  return app.may("write") && each.home === null
    ? button("Drop…", () => new Changes(app).dropLease({ ...each, service }), "quiet")
    : null;
}
