/**
 * Who is signed in: what goes into `Authorization`. Kept in the storage of this tab only, so that closing it signs out.
 */

import { Topic } from "./frame.js";

const KEY = "bussrv.authorization";

export class Credentials {
  constructor(storage) {
    this.changed = new Topic();
    this.storage = storage;
  }

  /** The value of the header, or `null`. */
  get header() {
    return this.storage.getItem(KEY);
  }

  set header(value) {
    if (value === null) {
      this.storage.removeItem(KEY);
    } else {
      this.storage.setItem(KEY, value);
    }
    this.changed.tell();
  }
}

/** The header for a user and a secret, in UTF-8. */
export function basic(user, secret) {
  const text = new TextEncoder().encode(`${user}:${secret}`);
  return `Basic ${btoa(Array.from(text, (byte) => String.fromCharCode(byte)).join(""))}`;
}

/** The header for a token. */
export function bearer(token) {
  return `Bearer ${token}`;
}
