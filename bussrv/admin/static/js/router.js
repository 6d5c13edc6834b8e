/**
 * Which view is shown, and what is open beside it: `#/VIEW?session=ID`. The address can be kept and sent to somebody.
 */

import { Topic } from "./frame.js";

export class Router {
  /** @param {string} first the view that an address without one means. */
  constructor(first) {
    this.first = first;
    this.changed = new Topic();
    addEventListener("hashchange", () => this.changed.tell());
  }

  get view() {
    return this.#parts().path || this.first;
  }

  /** The value of a parameter, or `null`. */
  parameter(name) {
    return this.#parts().parameters.get(name);
  }

  #parts() {
    const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?", 2);
    return { path, parameters: new URLSearchParams(query) };
  }

  /** The address of a view, with something open beside it. */
  address(view, open = {}) {
    const query = new URLSearchParams(open).toString();
    return `#/${view}${query ? `?${query}` : ""}`;
  }

  /** Open something beside the view that is shown; nothing closes what is open. */
  open(what = {}) {
    location.hash = this.address(this.view, what);
  }
}
