/**
 * Who has most traffic: the busiest sessions, or services, of a range of time.
 */

import { brief, bytes, count } from "../format.js";
import { short, shortened } from "../names.js";
import { choice, nothing } from "../parts.js";
import { Poll } from "../poll.js";
import { spanChoice } from "../spans.js";
import { Table } from "../table.js";
import { frame } from "./frame.js";

const PAUSE = 5000;
const EMPTY = nothing("Nobody has sent anything", "The busiest show up here within ten seconds.");

const size = (label, value) => ({ label, width: 6.5, end: true, text: (row) => bytes(value(row)), sort: value });
const number = (label, value) => ({ label, width: 7, end: true, text: (row) => brief(value(row)), sort: value });

export function busiestView(app) {
  let span = 600;
  let kind = "sessions";
  const peerOf = (row) => app.sessions.get(row.session)?.peer ?? "";
  const tables = {
    sessions: new Table({
      caption: "Busiest sessions",
      key: (row) => row.session,
      sort: "-Bytes",
      open: (row) => app.router.open({ session: row.session }),
      empty: nothing("Loading…"),
      columns: [
        { label: "Client", least: 14, text: (row) => short(row.name), sort: (row) => row.name },
        { label: "Address", width: 12.5, rank: 1, mono: true, text: (row) => short(peerOf(row)), sort: peerOf },
        {
          label: "Routing id",
          width: 9,
          rank: 3,
          mono: true,
          text: (row) => short(shortened(row.routing_id ?? "")),
          hover: (row) => row.routing_id,
          kind: () => "soft",
        },
        { label: "Format", width: 6.5, rank: 2, text: (row) => row.protocol, sort: (row) => row.protocol },
        { ...number("Objects", (row) => row.objects), rank: 1 },
        size("Bytes", (row) => row.bytes),
        { ...number("Objects in", (row) => row.objects_in), rank: 3 },
        { ...number("Objects out", (row) => row.objects_out), rank: 3 },
        { ...size("Bytes in", (row) => row.bytes_in), rank: 2 },
        { ...size("Bytes out", (row) => row.bytes_out), rank: 2 },
        { label: "Session", width: 12, rank: 3, mono: true, text: (row) => row.session, kind: () => "soft" },
      ],
    }),
    services: new Table({
      caption: "Busiest services",
      key: (row) => row.service,
      sort: "-Bytes",
      open: (row) => app.router.open({ service: row.service }),
      empty: nothing("Loading…"),
      columns: [
        { label: "Service", text: (row) => short(row.service), sort: (row) => row.service },
        number("Publications", (row) => row.objects),
        size("Bytes", (row) => row.bytes),
        { ...number("Publications / s", (row) => row.objects / span), width: 8.5, rank: 1 },
        { ...size("Bytes / s", (row) => row.bytes / span), rank: 1 },
      ],
    }),
  };
  const kinds = choice(
    "Of what",
    [
      ["sessions", "Sessions"],
      ["services", "Services"],
    ],
    kind,
    (value) => {
      kind = value;
      show();
    },
  );
  const spans = spanChoice("Range of time", span, (value) => {
    span = value;
    show();
  });
  tables.services.element.hidden = true;
  const view = frame({
    title: "Busiest",
    tools: [kinds, spans],
    content: Object.values(tables).map((table) => table.element),
    fixed: true,
  });
  const poll = new Poll(ask, PAUSE, (error) => {
    tables[kind].empty = nothing("The busiest cannot be shown", error.message);
    tables[kind].rows = [];
  });

  async function ask() {
    const asked = kind;
    const { items } = await app.api.all(`busiest/${asked}`, { parameters: { since: -span }, most: 1000 });
    tables[asked].empty = EMPTY;
    tables[asked].rows = items;
    view.amount(items.length ? count(items.length) : "");
  }

  function show() {
    for (const [name, table] of Object.entries(tables)) {
      table.element.hidden = name !== kind;
    }
    poll.stop();
    poll.start();
  }

  return { ...view, show, hide: () => poll.stop() };
}
