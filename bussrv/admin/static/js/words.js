/**
 * Says in words what a record of the journal says in fields.
 */

import { h } from "./dom.js";
import { ago, bytes, count, duration, many, moment, timeOf } from "./format.js";
import { calledBy, name, short } from "./names.js";

/** Each event: what happened, and which field it happened to. */
const EVENTS = {
  "server.started": ["Server started", "version"],
  "server.stopped": ["Server stopped"],
  "server.recovered": ["Server recovered after a crash"],
  "session.opened": ["Connected"],
  "session.identified": ["Gave its names", "name"],
  "session.left": ["Left, session kept"],
  "session.resumed": ["Came back", "peer"],
  "session.closed": ["Closed"],
  "service.registered": ["Provides", "service"],
  "service.unregistered": ["No longer provides", "service"],
  "service.refused": ["Was refused to provide", "service"],
  "subscription.added": ["Subscribed to", "service"],
  "subscription.removed": ["No longer subscribed to", "service"],
  "subscription.renewed": ["Renewed", "service"],
  "subscription.refused": ["Was refused to subscribe to", "service"],
  "auth.succeeded": ["Logged in as", "actor"],
  "auth.failed": ["Failed to log in as", "claimed"],
  "access.denied": ["Denied", "target"],
  "access.used": ["Used", "target"],
  "limit.reached": ["Reached the limit", "limit"],
  "link.up": ["Link up", "routing_id"],
  "link.down": ["Link down", "routing_id"],
  "link.gap": ["Objects lost", "origin"],
  "link.forgotten": ["Link forgotten", "routing_id"],
  "link.clock": ["Clock compared", "routing_id"],
  "config.reloaded": ["Configuration reloaded"],
  "config.reload-failed": ["Reload failed"],
  "journal.degraded": ["Journal cannot be written"],
  "journal.restored": ["Journal is written again"],
  "journal.pruned": ["Old segment removed"],
  "journal.salvaged": ["Damaged segment set aside"],
  "seal.witnessed": ["Seal cosigned", "witness"],
  "seal.refused": ["Seal not cosigned", "witness"],
  "admin.action": ["Operator", "action"],
  "incident.acknowledged": ["Incident acknowledged", "incident"],
};

/** Ends of sessions that are nobody's trouble. */
const CALM = new Set([
  "client-closed",
  "unsubscribed",
  "server-stopped",
  "closed-by-operator",
  "lease-expired",
  "unreachable",
  "joined-session",
  "session-replaced",
]);

/** What members of the object network receive, by the mode that they asked for. */
const RECEIVED = { all: "everything", none: "nothing", no_echo: "everything of others", events_only: "events" };

/** What happened, in a few words. */
export function title(record) {
  return EVENTS[record.event]?.[0] ?? record.event;
}

/** What it happened to: the text of the field that matters most. */
export function object(record) {
  const field = EVENTS[record.event]?.[1];
  return (field && record[field]) || interest(record.interest);
}

/** Everything else that is worth a line: a text. */
export function remark(record) {
  const parts = [
    record.event === "access.denied" && record.action,
    record.reason,
    record.message && short(record.message, 200),
    record.event === "session.closed" && `after ${duration(record.duration / 1e6)}`,
    record.event === "session.left" && `until ${moment(timeOf(record.until))}`,
    record.rule && short(record.rule, 200),
    record.method,
    record.suppressed && `${count(record.suppressed)} more left out`,
    record.target && record.event === "admin.action" && short(record.target, 200),
    record.home && `of ${short(record.home)}`,
  ];
  return parts.filter(Boolean).join(" · ");
}

/** How grave it is: `bad`, `odd` or nothing. */
export function gravity(record) {
  if (record.event === "session.closed") {
    return CALM.has(record.reason) ? "" : "odd";
  }
  if (record.outcome === "failed") {
    return "bad";
  }
  return record.outcome === "refused" ? "odd" : "";
}

/** Who a session is: the user that it proved to be, or the one that it merely claims to be. */
export function who(row) {
  return row.actor || row.claimed ? short(calledBy({ actor: row.actor, claimed: row.claimed })) : "";
}

/** For how long a session has been open, or its client away. */
export function presence(row) {
  return row.state === "away" ? `away ${ago(row.away_since)}` : ago(row.opened);
}

/** What a person calls a session, or the one that a record is about. */
export function called(row) {
  return short(calledBy(row));
}

/** What a member of the object network wants to receive, in words. */
export function interest(wanted) {
  if (!wanted) {
    return "";
  }
  if (wanted.kind === "rules") {
    return `rules ${JSON.stringify(wanted.rules)}`;
  }
  const types = Array.isArray(wanted.types) ? wanted.types.join(", ") : wanted.types;
  return [RECEIVED[wanted.receive] ?? wanted.receive, types && types !== "all" ? `types ${types}` : null]
    .filter(Boolean)
    .join(", ");
}

/** The traffic of a session. */
export function traffic(row) {
  const one = (objects, size) => `${many(objects ?? 0, "object")}, ${bytes(size ?? 0)}`;
  return { received: one(row.objects_in, row.bytes_in), sent: one(row.objects_out, row.bytes_out) };
}

/** The line of a record in a history. */
export function line(record) {
  const what = object(record);
  return [title(record), what ? [" ", h("b", {}, name(what, 80))] : null];
}
