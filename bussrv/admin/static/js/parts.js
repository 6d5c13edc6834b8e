/**
 * Small parts that several views have.
 */

import { h, setText } from "./dom.js";
import { ago, agoBriefly, dateAndZone, moment } from "./format.js";
import { short, shortened } from "./names.js";

/** A list of facts: label and content; those without content are left out. */
export function facts(rows) {
  const there = rows.filter(([, content]) => content !== null && content !== undefined && content !== "");
  return h(
    "dl",
    { class: "facts" },
    there.map(([label, content]) => h("div", {}, h("dt", {}, label), h("dd", {}, content))),
  );
}

/** A heading with a count beside it, and what is below. */
export function section(title, amount, ...content) {
  const number = amount === null ? null : h("span", { class: "amount" }, String(amount));
  return h("section", {}, h("h3", {}, title, number), content);
}

/** Why there is nothing here. */
export function nothing(title, text = "") {
  return h("div", { class: "nothing" }, h("b", {}, title), text ? h("p", {}, text) : null);
}

/** A word with a colour: `kind` is `good`, `odd`, `bad`, `accent` or nothing. */
export function badge(text, kind = "") {
  return h("span", { class: `badge ${kind}` }, text);
}

/** A time, with the date, the zone and the journal's own time in UTC when it is pointed at. */
export function time(text, value) {
  return h("time", { datetime: value, title: dateAndZone(value) }, text);
}

/** How long ago a time was; {@link passTime} keeps it true. */
export function since(value) {
  const element = time(`${ago(value)} ago`, value);
  element.classList.add("since");
  return element;
}

/** A time of the journal, and a command, in a sentence of the server. */
const TIME_OR_COMMAND = /(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z|`[^`]+`)/;

/** A sentence of the server: its times are said as everywhere, and its commands look like commands. */
export function prose(text, most = 400) {
  const parts = short(text, most).split(TIME_OR_COMMAND);
  return parts.map((part, index) => {
    if (index % 2 === 0) {
      return h("bdi", {}, part);
    }
    return part.startsWith("`") ? h("code", {}, part.slice(1, -1)) : [time(moment(part), part), " (", since(part), ")"];
  });
}

/** Time has passed: say anew how long ago each time was. */
export function passTime() {
  for (const each of document.querySelectorAll("time.since")) {
    setText(each, `${(each.classList.contains("brief") ? agoBriefly : ago)(each.dateTime)} ago`);
  }
}

/** An id that nobody chose, short; it is copied whole. */
export function copied(id) {
  const shown = h("code", { title: id }, shortened(id));
  shown.addEventListener("copy", (event) => {
    event.clipboardData.setData("text/plain", id);
    event.preventDefault();
  });
  const copy = () => {
    getSelection().selectAllChildren(shown);
    document.execCommand("copy");
  };
  const button = h("button", { type: "button", class: "quiet", onclick: copy, "aria-label": `Copy ${id}` }, "Copy");
  return h("span", {}, shown, " ", button);
}

/** A button. */
export function button(text, onclick, kind = "") {
  return h("button", { type: "button", class: kind, onclick }, text);
}

/** An input that filters, and is found by the key `/`. */
export function filterInput(label, oninput) {
  const input = h("input", {
    type: "search",
    class: "filter",
    "aria-label": label,
    placeholder: label,
    spellcheck: "false",
  });
  input.addEventListener("input", () => oninput(input.value));
  return input;
}

/** A choice of one of a few. */
export function choice(label, options, value, onchange) {
  const select = h(
    "select",
    { "aria-label": label },
    options.map(([each, text]) => h("option", { value: each, selected: each === value }, text)),
  );
  select.addEventListener("change", () => onchange(select.value));
  return select;
}
