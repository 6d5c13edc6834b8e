/**
 * Asks before something is changed, and tells how it went.
 */

import { h } from "./dom.js";

/**
 * Ask for confirmation.
 *
 * @param {object} question `title`, `text` (elements or texts), `action` (the word on the button), `grave` if people are
 *   disconnected by it, `fields` (elements of a form).
 * @returns a promise of the form's data, or of `null` if nothing is to be done.
 */
export function confirmed({ title, text, action, grave = false, fields = [] }) {
  return new Promise((decide) => {
    const cancel = h("button", { type: "button", onclick: () => dialog.close() }, "Cancel");
    const go = h("button", { class: grave ? "grave" : "main", value: "go" }, action);
    const form = h(
      "form",
      { method: "dialog" },
      h("h2", { id: "question" }, title),
      h("div", { class: "text" }, text),
      fields,
      h("div", { class: "buttons" }, cancel, go),
    );
    const dialog = h("dialog", { "aria-labelledby": "question" }, form);
    dialog.addEventListener("close", () => {
      decide(dialog.returnValue === "go" ? new FormData(form) : null);
      dialog.remove();
    });
    document.body.append(dialog);
    dialog.showModal();
    // What Enter does without a look must do no harm.
    (grave ? cancel : go).focus();
  });
}

/** Short messages at the lower edge, read aloud; the latest one only. */
export class Notices {
  #timer = null;

  constructor(element) {
    this.element = element;
  }

  tell(text, kind = "done") {
    this.element.className = `notice ${kind}`;
    this.element.textContent = text;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(
      () => {
        this.element.textContent = "";
        this.element.className = "notice";
      },
      kind === "done" ? 6000 : 12000,
    );
  }

  /** Do something and tell how it went: `done` says so of the answer. */
  async attempt(work, done) {
    try {
      this.tell(done(await work()));
    } catch (error) {
      this.tell(error.message, "failed");
    }
  }
}
