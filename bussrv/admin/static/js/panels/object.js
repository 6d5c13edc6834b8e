/**
 * One object that was tapped: its metadata, and its payload if it was asked for.
 */

import { h } from "../dom.js";
import { bytes, many, timeOfDay } from "../format.js";
import { name, visible } from "../names.js";
import { facts, nothing, time } from "../parts.js";
import { called } from "../words.js";

/** Characters of a payload that are shown. */
const MOST = 20000;

export function objectPanel(app, number) {
  const found = app.tapped.find((each) => each.number === Number(number));
  if (!found) {
    return { title: "Object", element: nothing("Not here any more") };
  }
  const { from = {} } = found;
  const element = h(
    "div",
    {},
    facts([
      ["Time", time(timeOfDay(found.time, true), found.time)],
      [
        "From",
        from.session
          ? h(
              "a",
              { href: app.router.address("tap", { session: from.session }) },
              name(called(from)),
            )
          : null,
      ],
      ["Format", from.protocol],
      ["Service", found.service ? name(found.service) : null],
      ["Event", found.event ? name(found.event) : null],
      ["Type", found.type ? name(found.type) : null],
      ["Size", bytes(found.bytes)],
      ["Given to", many(found.to_count, "session")],
    ]),
    found.metadata ? [h("h3", {}, "Metadata"), block(JSON.stringify(found.metadata, null, 2))] : null,
    found.payload ? [h("h3", {}, "Payload"), block(decoded(found.payload))] : null,
  );
  return { title: "Object", element };
}

function block(text) {
  const lines = text.slice(0, MOST).split("\n").map(visible).join("\n");
  return h("pre", { tabindex: "0" }, lines, text.length > MOST ? "\n…" : "");
}

/** Text if it is text, otherwise its bytes in hexadecimal. */
function decoded(base64) {
  const raw = Uint8Array.from(atob(base64.slice(0, MOST * 4)), (each) => each.charCodeAt(0));
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(raw);
  } catch {
    return Array.from(raw.slice(0, 4096), (byte) => byte.toString(16).padStart(2, "0")).join(" ");
  }
}
