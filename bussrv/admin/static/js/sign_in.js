/**
 * Asks who you are: a user and a secret, or a token. The server decides; what it took is kept until the tab is closed.
 */

import { basic, bearer } from "./credentials.js";
import { fill, h } from "./dom.js";

export class SignIn {
  #asked = null;

  constructor(api) {
    this.api = api;
    this.element = h("dialog", { class: "sign-in", "aria-labelledby": "sign-in-title" });
  }

  /**
   * Show the form.
   *
   * @param {string} why one sentence.
   * @param {string} kind what is asked for first: `user` or `token`.
   * @param {boolean} needed whether there is nothing to see without: then it cannot be put away.
   * @returns a promise that is kept when it is closed.
   */
  ask(why, kind = "user", needed = false) {
    this.#asked ??= this.#open(why, kind, needed).finally(() => {
      this.#asked = null;
    });
    return this.#asked;
  }

  #open(why, kind, needed) {
    return new Promise((done) => {
      fill(this.element, this.#form(why, kind, needed));
      this.element.oncancel = (event) => needed && event.preventDefault();
      this.element.onclose = () => {
        // A secret does not stay in a form that nobody sees.
        fill(this.element);
        done();
      };
      document.body.append(this.element);
      this.element.showModal();
      this.element.querySelector(".fields:not([hidden]) input").focus();
    });
  }

  #form(why, first, needed) {
    const fault = h("p", { class: "fault", role: "alert" });
    const user = field("User", { name: "user", autocomplete: "username", autocapitalize: "none", spellcheck: "false" });
    const secret = field("Secret", { name: "secret", type: "password", autocomplete: "current-password" });
    const token = field("Token", { name: "token", type: "password", autocomplete: "off", spellcheck: "false" });
    const parts = { user: h("div", { class: "fields" }, user, secret), token: h("div", { class: "fields" }, token) };
    const choose = (kind) => {
      for (const [each, part] of Object.entries(parts)) {
        part.hidden = each !== kind;
      }
      fault.textContent = "";
    };
    choose(first);
    const choice = h(
      "fieldset",
      { class: "choice" },
      h("legend", { class: "unseen" }, "With"),
      option("User and secret", "user", first === "user", choose),
      option("Token", "token", first === "token", choose),
    );
    const go = h("button", { class: "main" }, "Sign in");
    const cancel = needed ? null : h("button", { type: "button", onclick: () => this.element.close() }, "Cancel");
    const onsubmit = (event) => {
      event.preventDefault();
      this.#try(new FormData(event.target), fault, go);
    };
    return h(
      "form",
      { onsubmit },
      h("h2", { id: "sign-in-title" }, "Sign in"),
      h("p", { class: "text" }, why),
      choice,
      parts.user,
      parts.token,
      fault,
      h("div", { class: "buttons" }, cancel, go),
    );
  }

  async #try(data, fault, button) {
    const token = data.get("kind") === "token";
    const header = token ? bearer(data.get("token").trim()) : basic(data.get("user"), data.get("secret"));
    button.disabled = true;
    fault.textContent = "";
    try {
      await this.api.try(header);
      this.api.credentials.header = header;
      this.element.close();
    } catch (error) {
      fault.textContent = error.status === 401 ? "The server does not accept that." : error.message;
      button.disabled = false;
    }
  }
}

function field(label, attributes) {
  return h("label", { class: "field" }, h("span", {}, label), h("input", attributes));
}

function option(label, value, checked, choose) {
  const input = h("input", { type: "radio", name: "kind", value, checked, onchange: () => choose(value) });
  return h("label", {}, input, label);
}
