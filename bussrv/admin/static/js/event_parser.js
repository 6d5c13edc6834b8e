/**
 * The text of server-sent events.
 */

/** Takes text in any pieces, and gives events: `{id, event, data}`. */
export class EventParser {
  #rest = "";
  #data = [];
  #event = "";
  #id = null;

  constructor(emit) {
    this.emit = emit;
  }

  push(text) {
    const lines = (this.#rest + text).split("\n");
    this.#rest = lines.pop();
    for (const line of lines) {
      this.#line(line.endsWith("\r") ? line.slice(0, -1) : line);
    }
  }

  #line(line) {
    if (line === "") {
      this.#dispatch();
      return;
    }
    const colon = line.indexOf(":");
    if (colon === 0) {
      return;
    }
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(line[colon + 1] === " " ? colon + 2 : colon + 1);
    if (field === "data") {
      this.#data.push(value);
    } else if (field === "event") {
      this.#event = value;
    } else if (field === "id") {
      this.#id = value;
    }
  }

  #dispatch() {
    if (this.#data.length) {
      this.emit({ id: this.#id, event: this.#event || "message", data: this.#data.join("\n") });
    }
    this.#data = [];
    this.#event = "";
  }
}
