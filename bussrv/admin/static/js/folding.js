/**
 * Folds long lists of names: those that begin alike, up to a separator, are one row that can be opened.
 */

/** Fewer rows than these are no group. */
const LEAST = 5;
/** The separators of names: the levels of topics, and what people number things with. */
const SEPARATOR = /[/.:_-]/g;

/** A name up to its first separator after `from`, with it; `null`: there is none. */
function prefixOf(name, from) {
  SEPARATOR.lastIndex = from;
  const found = SEPARATOR.exec(name);
  return found && found.index > from && found.index + 1 < name.length ? name.slice(0, found.index + 1) : null;
}

/**
 * Groups of rows, and rows that are alone.
 *
 * @param {object[]} rows
 * @param {function} keyOf the key of a row's group, or `null`.
 * @param {function} sum makes the row of a group, given its key and its rows.
 */
export function grouped(rows, keyOf, sum) {
  const groups = new Map();
  const alone = [];
  for (const row of rows) {
    const key = keyOf(row);
    if (key === null) {
      alone.push(row);
    } else if (groups.has(key)) {
      groups.get(key).push(row);
    } else {
      groups.set(key, [row]);
    }
  }
  return [...alone, ...[...groups].flatMap(([key, inside]) => (inside.length < LEAST ? inside : [sum(key, inside)]))];
}

/** The same by the beginnings of names: what is in a group is grouped by what follows. */
export function folded(rows, nameOf, sum, from = 0) {
  const prefix = (row) => prefixOf(nameOf(row), from);
  return grouped(rows, prefix, (key, inside) => ({
    ...sum(key, inside),
    inside: () => folded(inside, nameOf, sum, key.length),
  }));
}
