/**
 * What every view has: a heading, how many there are, its tools, and its content.
 */

import { h, setText } from "../dom.js";

/** Whether a text of a row has what was typed: letter case does not matter. */
export function matching(wanted, fields) {
  const text = wanted.trim().toLowerCase();
  return text === ""
    ? null
    : (row) =>
        fields.some((field) =>
          String(row[field] ?? "")
            .toLowerCase()
            .includes(text),
        );
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
