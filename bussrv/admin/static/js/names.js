/**
 * Shows names that strangers chose: cut, isolated from the text around them, and with nothing hidden in them.
 */

import { h } from "./dom.js";

/** Controls, blanks of no width, bidirectional marks, tags, and halves of surrogate pairs. */
const ODD = new RegExp(
  "[\\u0000-\\u001f\\u007f-\\u009f\\u00ad\\u061c\\u115f\\u1160\\u17b4\\u17b5\\u180e\\u200b-\\u200f\\u2028-\\u202e" +
    "\\u2060-\\u206f\\u3164\\ufe00-\\ufe0f\\ufeff\\uffa0\\ufff0-\\ufffb\\p{Cs}\\u{e0000}-\\u{e0fff}]",
  "gu",
);

/** So many combining marks in a row are no language. */
const HEAPED = /(\p{M}{4})\p{M}+/gu;

const MOST = 120;

/** A text with every character that cannot be seen written out, such as ‹U+202E›. */
export function visible(text) {
  return String(text)
    .replace(ODD, (odd) => `‹U+${odd.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}›`)
    .replace(HEAPED, "$1‹…›");
}

/** The same, cut to so many characters: what a cell of a table shows. */
export function short(text, most = MOST) {
  if (text === null || text === undefined) {
    return "";
  }
  const whole = String(text);
  // Cut before it is looked at: a megabyte of a name costs no more than its first characters.
  return whole.length > most
    ? `${visible(
        Array.from(whole.slice(0, most))
          .slice(0, most - 1)
          .join(""),
      )}…`
    : visible(whole);
}

/** An element with a name, isolated; a long one has a button that shows all of it. */
export function name(text, most = MOST) {
  const whole = String(text ?? "");
  const shown = h("bdi", { class: "name" }, short(whole, most));
  if (whole.length <= most) {
    return shown;
  }
  const button = h(
    "button",
    { type: "button", class: "quiet", onclick: showAll },
    `Show all ${whole.length} characters`,
  );
  const both = h("span", { class: "long-name" }, shown, " ", button);

  function showAll() {
    const all = h(
      "span",
      { class: "whole-name", tabindex: "0", role: "textbox", "aria-readonly": "true" },
      visible(whole),
    );
    all.setAttribute("aria-label", "The whole name");
    both.replaceChildren(all);
    all.focus();
  }

  return both;
}

/** The format of the session that the server itself has. */
export const OWN = "bus";
/** Follows a name that a client merely claims. */
const CLAIMED = " (claimed)";
const MOST_CLAIMED = 30;
/** The characters that are left of an id that the server made up. */
const LEAST_CUT = 8;
const MQTT = "mqtt-";
const MADE_UP = /^(?:mqtt-)?(?:[0-9a-f]{16,}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})$/i;

/**
 * What a person calls a session: its user, a name that it claims, its services, its address; its ids come last. The rule
 * is that of `bussrv/registry/state/naming.py`.
 */
export function calledBy(row) {
  if (row.protocol === OWN && !row.called) {
    return "the server";
  }
  const place = row.peer && row.protocol ? `${row.peer} over ${row.protocol}` : row.peer;
  return named(row) || place || shortened(row.routing_id || row.session || "") || "a client";
}

function named(row) {
  if (row.called || row.actor) {
    return row.called || row.actor;
  }
  const chosen = MADE_UP.test(row.routing_id ?? "") ? null : row.routing_id;
  const claims = row.claimed || row.name || chosen;
  if (claims) {
    // The mark must be in sight, however long a name a stranger chooses.
    const letters = Array.from(claims.slice(0, 2 * MOST_CLAIMED + 2));
    return `${letters.length > MOST_CLAIMED ? `${letters.slice(0, MOST_CLAIMED - 1).join("")}…` : claims}${CLAIMED}`;
  }
  const services = provided(row);
  const more = services.length > 1 ? ` and ${services.length - 1} more` : "";
  return services.length ? `provides ${services[0]}${more}` : null;
}

/** The names of the services of a session, in the order of people. */
export function provided(row) {
  const services = row.provides?.length ? row.provides : row.services;
  const names = Array.isArray(services) ? services.map((each) => each.service ?? each) : [];
  return names.filter(Boolean).sort(natural);
}

/** The beginning of an id that the server made up; another id as it is. */
export function shortened(id) {
  const begin = id.startsWith(MQTT) ? MQTT.length : 0;
  return MADE_UP.test(id) ? `${id.slice(0, begin + LEAST_CUT)}…` : id;
}

/** Every text that finds a session, or a record about one. */
export function namesOf(row) {
  const fields = ["actor", "claimed", "name", "routing_id", "session", "service", "protocol", "home", "peer"];
  return [calledBy(row), ...fields.map((field) => row[field]), ...(row.routing_ids ?? []), ...provided(row)];
}

const numeric = new Intl.Collator("en", { numeric: true });

/** Compares two texts in the order of people: `attic-4` before `attic-12`. */
export function natural(one, other) {
  return numeric.compare(one, other) || (one < other ? -1 : one > other ? 1 : 0);
}
