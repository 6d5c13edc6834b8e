/**
 * The ranges of time that a person can choose.
 */

import { choice } from "./parts.js";

const SPANS = [
  [60, "1 minute"],
  [300, "5 minutes"],
  [600, "10 minutes"],
  [3600, "1 hour"],
  [21600, "6 hours"],
  [86400, "24 hours"],
  [604800, "7 days"],
  [2592000, "30 days"],
];

/** A choice of a range, in seconds. */
export function spanChoice(label, seconds, onchange) {
  const options = SPANS.map(([length, text]) => [String(length), text]);
  return choice(label, options, String(seconds), (value) => onchange(Number(value)));
}
