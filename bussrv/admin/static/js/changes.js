/**
 * Everything that the page can change. Each asks first, and says what it does to whom; the journal says who did it.
 */

import { confirmed } from "./dialog.js";
import { h } from "./dom.js";
import { many } from "./format.js";
import { name } from "./names.js";
import { called } from "./words.js";

export class Changes {
  constructor(app) {
    this.app = app;
  }

  closeSession(session) {
    return this.#ask({
      title: "Close this session?",
      text: [
        h("p", {}, name(called(session), 80), ` (${session.protocol}${session.peer ? `, ${session.peer}` : ""})`),
        h("p", {}, "The client is disconnected. It may connect again."),
      ],
      action: "Close session",
      grave: true,
      change: () => this.app.api.change("DELETE", `sessions/${encodeURIComponent(session.session)}`),
      done: () => "The session is closed.",
    });
  }

  dropLease({ session, service, routing_id, protocol, ...names }) {
    const path = `subscriptions/${encodeURIComponent(session)}/${encodeURIComponent(service)}`;
    return this.#ask({
      title: "Drop this subscription?",
      text: [
        h("p", {}, name(called({ session, routing_id, protocol, ...names }), 80), ` (${protocol}) no longer receives `, name(service, 80), "."),
        h("p", {}, "The client may subscribe again."),
      ],
      action: "Drop subscription",
      grave: true,
      change: () => this.app.api.change("DELETE", path),
      done: () => "The subscription is dropped.",
    });
  }

  acknowledge({ id, title }) {
    const note = h("input", { "aria-label": "Note", placeholder: "A few words for others", maxlength: "500" });
    return this.#ask({
      title: "Take note of this incident?",
      text: [h("p", {}, `${title}. It does not need a look any more. The journal records who took note of it.`), note],
      action: "Take note",
      change: () =>
        this.app.api.change("POST", `incidents/${encodeURIComponent(id)}/acknowledge`, note.value ? { note: note.value } : {}),
      done: () => "You took note of it.",
    });
  }

  audit() {
    return this.#ask({
      title: "Audit the journal now?",
      text: h("p", {}, "A process of its own with the least priority reads the whole journal. It takes up to two gigabytes of memory."),
      action: "Audit now",
      change: () => this.app.api.change("POST", "audit"),
      done: () => "The audit has begun.",
    });
  }

  seal() {
    return this.#ask({
      title: "Seal the journal now?",
      text: h("p", {}, "Everything written so far gets a seal. Later changes of it are found by verify."),
      action: "Seal now",
      change: () => this.app.api.change("POST", "journal/seal"),
      done: () => "The journal is sealed.",
    });
  }

  reload() {
    return this.#ask({
      title: "Reload the configuration?",
      text: h(
        "p",
        {},
        "The server reads its configuration, users and policy again. If they are wrong it keeps those it has.",
      ),
      action: "Reload",
      change: () => this.app.api.change("POST", "reload"),
      done: reloaded,
    });
  }

  drain() {
    return this.#ask({
      title: "Drain and stop this server?",
      text: drainText(this.app.server.latest),
      action: "Drain and stop",
      grave: true,
      change: () => this.app.api.change("POST", "drain"),
      done: () => "The server drains.",
    });
  }

  logLevel(level, part) {
    const what = part ? `of ${part} ` : "";
    return this.#ask({
      title: `Set the log level ${what}to ${level}?`,
      text: h("p", {}, "It holds until the server stops, or its configuration is reloaded."),
      action: "Set level",
      change: () => this.app.api.change("PUT", "log-level", part ? { level, part } : { level }),
      done: () => `The log level ${what}is ${level}.`,
    });
  }

  async #ask({ change, done, ...question }) {
    if ((await confirmed(question)) !== null) {
      await this.app.notices.attempt(change, done);
      this.app.refresh();
    }
  }
}

function drainText(server) {
  const sessions = server?.clients ? many(server.clients, "session") : "all sessions";
  return [
    h("p", {}, "You are about to stop ", h("b", {}, name(server?.server, 60)), ":"),
    h(
      "ol",
      {},
      h("li", {}, "It accepts no new clients."),
      h("li", {}, `It ends ${sessions} within ${server?.drain_seconds ?? 5} s, one after the other.`),
      h("li", {}, "It closes the journal and stops. This page loses its connection."),
    ),
    h("p", {}, h("b", {}, "It cannot be started again from here.")),
  ];
}

function reloaded({ changed, restart, effects = [] }) {
  const parts = [
    changed.length ? `Reloaded: ${changed.join(", ")} changed.` : "Reloaded; no option changed.",
    effects.length ? `${effects.join("; ")}.` : "",
    restart.length ? `A restart is needed for ${restart.join(", ")}.` : "",
  ];
  return parts.filter(Boolean).join(" ");
}
