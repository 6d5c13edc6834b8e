/**
 * Writes numbers, sizes, durations and times for people. Times are local; the journal's own, in UTC, stands beside them
 * where there is room.
 */

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const DAY = 86400;
/** Units of an age, in seconds, and how many of them are said before the next one is. */
const AGES = [
  ["s", 1, 60],
  ["min", 60, 100],
  ["h", 3600, 48],
];

/** A number of things. */
export function count(number) {
  return Number.isFinite(number) ? whole.format(number) : "–";
}

/** A number of things, and what they are: 1 object, 2 objects. */
export function many(number, one, others = `${one}s`) {
  return `${count(number)} ${number === 1 ? one : others}`;
}

/** A number that has little room: 950, 1.2 k, 34 k, 5.6 M. */
export function brief(number) {
  return Number.isFinite(number) ? scaled(number, 1000, ["", " k", " M", " G", " T"]) : "–";
}

/** A number of bytes. */
export function bytes(number) {
  return Number.isFinite(number) ? scaled(number, 1024, [" B", " KiB", " MiB", " GiB", " TiB"]) : "–";
}

function scaled(number, step, units) {
  let rest = number;
  let unit = 0;
  while (Math.abs(rest) >= step && unit < units.length - 1) {
    rest /= step;
    unit += 1;
  }
  const digits = unit > 0 && Math.abs(rest) < 10 ? 1 : 0;
  return `${rest < 10 && unit === 0 ? trimmed(rest) : rest.toFixed(digits)}${units[unit]}`;
}

function trimmed(number) {
  return Number.isInteger(number) ? String(number) : number.toFixed(1);
}

/** A short time, given in seconds: 85 µs, 1.2 ms, 3.4 s. */
export function seconds(number) {
  if (!Number.isFinite(number)) {
    return "–";
  }
  if (number === 0) {
    return "0";
  }
  if (number < 0.001) {
    return `${(number * 1e6).toFixed(0)} µs`;
  }
  return number < 1 ? `${digits(number * 1000)} ms` : `${digits(number)} s`;
}

function digits(number) {
  return number < 10 ? number.toFixed(1) : number.toFixed(0);
}

/** A long time, given in seconds, in its two largest units. */
export function duration(number) {
  if (!Number.isFinite(number)) {
    return "–";
  }
  if (number < 10) {
    return seconds(number);
  }
  const total = Math.round(number);
  const parts = [
    [Math.floor(total / DAY), "d"],
    [Math.floor(total / 3600) % 24, "h"],
    [Math.floor(total / 60) % 60, "min"],
    [total % 60, "s"],
  ];
  const first = parts.findIndex(([amount]) => amount > 0);
  return parts
    .slice(first, first + 2)
    .filter(([amount]) => amount > 0)
    .map(([amount, unit]) => `${amount} ${unit}`)
    .join(" ");
}

/** Milliseconds that the clock of the server is ahead of the browser's. */
let ahead = 0;

/** The server has told its time. */
export function setServerTime(time) {
  ahead = Date.parse(time) - Date.now();
}

/** The seconds since a time of the journal, by the clock of the server. */
function age(time) {
  return Math.max(0, (Date.now() + ahead - Date.parse(time)) / 1000);
}

/** How long ago a time of the journal was, by the clock of the server: after a minute, seconds do not matter. */
export function ago(time) {
  const since = age(time);
  if (since < 60) {
    return `${Math.floor(since)} s`;
  }
  return Number.isFinite(since) ? duration(Math.floor(since / 60) * 60) : "–";
}

/** The same with little room: 59 s, 99 min, 47 h, 12 d. */
export function agoBriefly(time) {
  const since = age(time);
  const [unit, seconds] = AGES.find(([, each, most]) => since < each * most) ?? ["d", DAY];
  return Number.isFinite(since) ? `${Math.floor(since / seconds)} ${unit}` : "–";
}

/** The last millisecond of the year 9999. A session that is kept for ever is kept until then. */
const LATEST = 253402300799999;

/** The time that so many microseconds since 1970 are, as the admin interface writes it. */
export function timeOf(microseconds) {
  return new Date(Math.min(Math.max(0, microseconds / 1000), LATEST)).toISOString();
}

const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const dated = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });

/** The time of day, with milliseconds if they are asked for. */
export function timeOfDay(time, milliseconds = false) {
  const moment = new Date(time);
  if (Number.isNaN(moment.getTime())) {
    return "–";
  }
  const day = clock.format(moment);
  return milliseconds ? `${day}.${String(moment.getMilliseconds()).padStart(3, "0")}` : day;
}

/** The time of day of today, otherwise the day as well. */
export function moment(time) {
  const when = new Date(time);
  if (Number.isNaN(when.getTime())) {
    return "–";
  }
  return when.toDateString() === new Date().toDateString() ? clock.format(when) : dated.format(when);
}

const full = new Intl.DateTimeFormat("en-GB", {
  weekday: "short",
  day: "numeric",
  month: "short",
  year: "numeric",
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
  timeZoneName: "short",
});

/** The date and the time with its zone, and the journal's own in UTC: for those who point at a time. */
export function dateAndZone(time) {
  const when = new Date(time);
  return Number.isNaN(when.getTime()) ? "" : `${full.format(when)}\n${time}`;
}
