/**
 * What every view has: a heading, how many there are, its tools, and its content.
 */

import { h, setText } from "../dom.js";
import { namesOf } from "../names.js";

/** Whether a text of a row has what was typed: one of these fields, or a name of its session. Case does not matter. */
export function matching(wanted, fields) {
  const text = wanted.trim().toLowerCase();
  const has = (value) =>
    String(value ?? "")
      .toLowerCase()
      .includes(text);
  return text === "" ? null : (row) => fields.some((field) => has(row[field])) || namesOf(row).some(has);
}

/**
 * A view.
 *
 * @param {object} options `title`, `tools` (elements), `content` (elements), `fixed` if the content fills the height and
 *   scrolls inside.
 */
export function frame({ title, tools = [], content, fixed = false }) {
  const amount = h("span", { class: "amount" });
  const heading = h("h1", { tabindex: "-1" }, title);
  const element = h(
    "section",
    { class: `view ${fixed ? "fixed" : ""}`, "aria-label": title },
    h("header", { class: "view-head" }, heading, amount, h("div", { class: "tools" }, tools)),
    content,
  );
  return { element, heading, amount: (text) => setText(amount, text) };
}
