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
