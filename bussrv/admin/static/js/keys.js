/**
 * The keys of the page, and the dialog that tells them.
 */

import { h } from "./dom.js";

const KEYS = [
  ["/", "Go to the filter of the view"],
  ["↑ ↓", "Choose a row of a table"],
  ["Page ↑ ↓, Home, End", "Choose a row further away"],
  ["Enter", "Open the chosen row"],
  ["Esc", "Close what is open beside the view, or this help"],
  ["Tab", "Go to the next element"],
  ["?", "Show this help"],
];

/** Show the keys. */
export function showKeys() {
  if (document.querySelector("dialog[open]")) {
    return;
  }
  const close = h("button", { class: "main", value: "closed" }, "Close");
  const rows = KEYS.map(([key, what]) => h("div", {}, h("dt", {}, h("kbd", {}, key)), h("dd", {}, what)));
  const form = h(
    "form",
    { method: "dialog" },
    h("h2", { id: "keys" }, "Keys"),
    h("dl", { class: "facts" }, rows),
    h("div", { class: "buttons" }, close),
  );
  const dialog = h("dialog", { "aria-labelledby": "keys" }, form);
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
  close.focus();
}
