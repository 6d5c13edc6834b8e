/**
 * Sessions that read more slowly than they are sent to: the most bytes waiting first.
 */

import { bytes, count } from "../format.js";
import { short } from "../names.js";
import { nothing } from "../parts.js";
import { Poll } from "../poll.js";
import { agoColumn, Table } from "../table.js";
import { called } from "../words.js";
import { frame } from "./frame.js";

const PAUSE = 1500;
const MOST = 500;

export function slowView(app) {
  const calm = nothing("Nobody reads too slowly", "Sessions show up here while bytes wait for them.");
  const table = new Table({
    caption: "Slow sessions",
    key: (row) => row.session,
    sort: "-Waiting",
    open: (row) => app.router.open({ session: row.session }),
    empty: nothing("Loading…"),
    columns: [
      { label: "Client", least: 14, text: called, sort: called },
      { label: "Format", width: 6, rank: 1, text: (row) => row.protocol, sort: (row) => row.protocol },
      { label: "Address", width: 13, rank: 1, mono: true, text: (row) => short(row.peer), sort: (row) => row.peer },
      {
        label: "Waiting",
        width: 7,
        end: true,
        text: (row) => bytes(row.waiting_bytes),
        sort: (row) => row.waiting_bytes,
      },
      agoColumn("Connected", (row) => app.sessions.get(row.session)?.opened, { rank: 2 }),
      { label: "Limit", width: 7, rank: 2, end: true, text: (row) => bytes(row.limit), sort: (row) => row.limit },
      { label: "Full", width: 6, end: true, text: (row) => `${percent(row)} %`, sort: percent, kind: fullness },
    ],
  });
  const view = frame({ title: "Slow sessions", content: table.element, fixed: true });
  const poll = new Poll(
    async () => {
      const found = await app.api.get("slow", { parameters: { limit: MOST } });
      const items = found.items.filter((item) => item.waiting_bytes > 0);
      table.empty = calm;
      table.rows = items;
      view.amount(items.length ? count(items.length) : "");
    },
    PAUSE,
    (error) => {
      table.empty = nothing("Slow sessions cannot be shown", error.message);
      table.rows = [];
    },
  );
  return { ...view, show: () => poll.start(), hide: () => poll.stop() };
}

function percent(row) {
  return row.limit ? Math.min(100, Math.floor((100 * row.waiting_bytes) / row.limit)) : 0;
}

function fullness(row) {
  const part = percent(row);
  return part >= 75 ? "bad" : part >= 25 ? "odd" : "";
}
