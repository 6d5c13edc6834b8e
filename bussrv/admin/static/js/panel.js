/**
 * What is open beside the view: a session with its history, a service with its two sides, a link, or one record.
 */

import { fill, h } from "./dom.js";

export class Panel {
  #shown = null;
  #wanted = null;
  #before = null;

  /**
   * @param {Router} router
   * @param {object} kinds by the parameter of the address: a function of its value that returns
   *   `{title, element, start, stop}`.
   */
  constructor(router, kinds) {
    this.router = router;
    this.kinds = kinds;
    this.heading = h("h2", { tabindex: "-1" });
    this.content = h("div", { class: "panel-content" });
    const close = h(
      "button",
      { type: "button", class: "icon", "aria-label": "Close", onclick: () => this.close() },
      "✕",
    );
    this.element = h(
      "aside",
      {
        class: "panel",
        "aria-label": "Details",
        hidden: true,
        onkeydown: (event) => event.key === "Escape" && this.close(),
      },
      h("header", {}, this.heading, close),
      this.content,
    );
    router.changed.listen(() => this.show());
  }

  /** Show what the address says. */
  show() {
    const kind = Object.keys(this.kinds).find((each) => this.router.parameter(each) !== null);
    const wanted = kind ? `${kind}=${this.router.parameter(kind)}` : null;
    if (wanted === this.#wanted) {
      return;
    }
    this.#wanted = wanted;
    this.#shown?.stop?.();
    if (!kind) {
      this.#hide();
      return;
    }
    this.#before ??= document.activeElement;
    this.#shown = this.kinds[kind](this.router.parameter(kind));
    fill(this.heading, this.#shown.title);
    fill(this.content, this.#shown.element);
    this.content.scrollTop = 0;
    this.element.hidden = false;
    this.#shown.start?.();
    this.heading.focus({ preventScroll: true });
  }

  close() {
    this.router.open();
  }

  #hide() {
    this.#shown = null;
    this.element.hidden = true;
    fill(this.content);
    // Back to the row that it was opened from.
    if (this.#before?.isConnected) {
      this.#before.focus({ preventScroll: true });
    }
    this.#before = null;
  }
}
