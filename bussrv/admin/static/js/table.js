/**
 * A table of any length: only the rows in sight are elements, and they are used again for other rows.
 *
 * The table has the keyboard's focus and names its current row (`aria-activedescendant`), so that a row can leave the
 * sight, or be used for another one, without the focus being lost.
 */

import { fill, h, setText } from "./dom.js";
import { eachFrame } from "./frame.js";
import { agoBriefly, dateAndZone } from "./format.js";
import { natural } from "./names.js";

/** Rows above and below those in sight. */
const SPARE = 6;
/** Columns without a width share what is left, and have at least so many rem. */
const LEAST = 11;
const MOST_RANK = 4;
let tables = 0;

export class Table {
  #given = [];
  #rows = [];
  #elements = [];
  #current = -1;
  #sort = null;
  #rank = MOST_RANK;
  #id = `table-${(tables += 1)}`;

  /**
   * @param {object} options `caption`; `columns`, see `column` below; `key(row)`; `open(row)`, what Enter and a click do;
   *   `empty`, an element that is shown instead of no rows; `sort`, the label of a column, with a `-` for falling;
   *   `kind(row)`, a class of the row; `children(row)`, the rows below one that is open, none below one that is not, and
   *   `undefined` for a row that cannot be opened. Then each row is told its `depth`, and whether it `isOpen`.
   *
   * A column has a `label`, `text(row)`, and perhaps `sort(row)`, `width` in rem, or else `least` in rem (11) and its `share` of what
   * is left (1), `end` for numbers, `rank` (the higher, the sooner it is left out when there is little room), `mono`,
   * `hover(row)`, a text for those who point at it, and `kind(row)`, a class of the cell. A cell that is cut shows all of
   * its text to those who point at it.
   */
  constructor(options) {
    this.options = options;
    this.columns = options.columns;
    this.draw = eachFrame(() => this.#draw());
    this.#build();
    this.#sortBy(options.sort ?? null);
    new ResizeObserver(([{ contentRect }]) => this.#fit(contentRect.width)).observe(this.element);
  }

  get rows() {
    return this.#rows;
  }

  /** The rows in the order in which they came; the table sorts them if a column says so. */
  set rows(rows) {
    const open = this.#rows[this.#current];
    this.#given = rows;
    this.#rows = this.#sorted(rows);
    if (open !== undefined) {
      this.#current = this.#indexOf(open);
    }
    this.draw();
  }

  /** Whether its first row is in sight. */
  get atTop() {
    return this.scroller.scrollTop < 4;
  }

  toTop() {
    this.scroller.scrollTop = 0;
  }

  /** Whether a column has room. */
  shows(label) {
    const column = this.columns.find((each) => each.label === label);
    return (column.rank ?? 0) <= this.#rank;
  }

  /** Leave out columns of the highest ranks, until those that are left have room. */
  #fit(width) {
    const rem = parseFloat(getComputedStyle(document.documentElement).fontSize);
    let rank = MOST_RANK;
    while (rank > 0 && this.#wanted(rank) * rem > width) {
      rank -= 1;
    }
    this.#rank = rank;
    this.table.className = `up-to-${rank}`;
    const shown = this.columns.filter((column) => (column.rank ?? 0) <= rank);
    this.#share(shown, width / rem);
    this.columns.forEach((column, index) => {
      column.isLast = column === shown.at(-1);
      this.heads[index].classList.toggle("last", column.isLast);
    });
    this.draw();
  }

  /** Columns without a width share the room, in rem, that is left. If all have one, they share it by that. */
  #share(shown, room) {
    const flexible = shown.filter((column) => !column.width);
    const sharing = flexible.length ? flexible : shown;
    const left = room - sum(shown, least);
    // What is left is shared. If there is too little, the wider ones give way more.
    const share = (column) => (left > 0 && flexible.length ? (column.share ?? 1) : least(column));
    const shares = sum(sharing, share);
    for (const column of shown) {
      const more = sharing.includes(column) ? (left * share(column)) / shares : 0;
      this.heads[this.columns.indexOf(column)].style.width = `${least(column) + more}rem`;
    }
  }

  /** The room that columns of these ranks need, in rem. */
  #wanted(rank) {
    return sum(this.columns.filter((column) => (column.rank ?? 0) <= rank), least);
  }

  #indexOf(row) {
    const key = this.options.key(row);
    return this.#rows.findIndex((each) => this.options.key(each) === key);
  }

  #build() {
    this.above = h("tr", { class: "space", "aria-hidden": "true" });
    this.below = h("tr", { class: "space", "aria-hidden": "true" });
    this.body = h("tbody", {}, this.above, this.below);
    this.heads = this.columns.map((column) => this.#head(column));
    this.table = h(
      "table",
      { role: this.options.children ? "treegrid" : "grid", tabindex: "0", "aria-label": this.options.caption, onkeydown: (event) => this.#key(event) },
      h("thead", {}, h("tr", {}, this.heads)),
      this.body,
    );
    this.table.addEventListener("focus", () => this.#mark(Math.max(0, this.#current)));
    this.body.addEventListener("click", (event) => this.#click(event));
    this.body.addEventListener("mouseover", ({ target }) => showCut(target));
    this.scroller = h("div", { class: "scroller", onscroll: () => this.draw() }, this.table);
    this.none = h("div", { class: "empty", hidden: true }, this.options.empty);
    this.element = h("div", { class: "table" }, this.scroller, this.none);
  }

  #head(column) {
    const classes = cellClass({ ...column, mono: false });
    const content = column.sort
      ? h("button", { type: "button", class: "sort", onclick: () => this.#toggle(column) }, column.label)
      : column.label;
    const head = h("th", { scope: "col", class: classes }, content);
    if (column.width) {
      head.style.width = `${column.width}rem`;
    }
    return head;
  }

  #toggle(column) {
    const falling = this.#sort?.column === column ? !this.#sort.falling : Boolean(column.end);
    this.#sortBy(`${falling ? "-" : ""}${column.label}`);
    this.rows = this.#given;
    this.options.onSort?.();
  }

  #sortBy(name) {
    const label = name?.replace(/^-/, "");
    const column = this.columns.find((each) => each.label === label);
    this.#sort = column ? { column, falling: name.startsWith("-") } : null;
    this.columns.forEach((each, index) => {
      const order = each === column ? (this.#sort.falling ? "descending" : "ascending") : null;
      if (order) {
        this.heads[index].setAttribute("aria-sort", order);
      } else {
        this.heads[index].removeAttribute("aria-sort");
      }
    });
  }

  /** The rows in order; those that are open with their children behind them. */
  #sorted(rows, depth = 0) {
    const { children } = this.options;
    const sorted = this.#sort ? this.#inOrder(rows) : rows;
    if (!children) {
      return sorted;
    }
    return sorted.flatMap((row) => {
      const below = children(row);
      Object.assign(row, { depth, isOpen: below && below.length > 0 });
      return [row, ...this.#sorted(below ?? [], depth + 1)];
    });
  }

  #inOrder(rows) {
    const { column, falling } = this.#sort;
    const way = falling ? -1 : 1;
    return rows
      .map((row, index) => ({ row, index, value: column.sort(row) ?? "" }))
      .sort((one, other) => way * compared(one.value, other.value) || one.index - other.index)
      .map(({ row }) => row);
  }

  #draw() {
    const count = this.#rows.length;
    this.none.hidden = count > 0;
    this.scroller.hidden = count === 0;
    this.table.setAttribute("aria-rowcount", count + 1);
    const height = this.#height();
    const room = this.scroller.clientHeight;
    if (count === 0 || room === 0) {
      return;
    }
    const top = Math.min(this.scroller.scrollTop, Math.max(0, count * height - room));
    const first = Math.max(0, Math.floor(top / height) - SPARE);
    const last = Math.min(count, Math.ceil((top + room) / height) + SPARE);
    this.#makeRows(last - first);
    this.above.style.height = `${first * height}px`;
    this.below.style.height = `${(count - last) * height}px`;
    for (let place = 0; place < last - first; place += 1) {
      this.#drawRow(this.#elements[place], first + place);
    }
    this.#name(first, last);
  }

  #height() {
    return parseFloat(getComputedStyle(this.element).getPropertyValue("--row-height")) || 30;
  }

  #makeRows(number) {
    while (this.#elements.length < number) {
      const element = h(
        "tr",
        {},
        this.columns.map((column) => h("td", { class: cellClass(column) })),
      );
      this.#elements.push(element);
      this.below.before(element);
    }
    while (this.#elements.length > number) {
      this.#elements.pop().remove();
    }
  }

  #drawRow(element, index) {
    const row = this.#rows[index];
    const current = index === this.#current;
    if (element.index !== index) {
      element.index = index;
      element.id = `${this.#id}-${index}`;
      element.setAttribute("aria-rowindex", index + 2);
    }
    const kind = `${current ? "current" : ""} ${this.options.kind?.(row) ?? ""}`;
    if (row.isOpen !== undefined) {
      element.setAttribute("aria-expanded", row.isOpen);
    } else {
      element.removeAttribute("aria-expanded");
    }
    if (element.className !== kind) {
      element.className = kind;
      element.setAttribute("aria-selected", current);
    }
    this.columns.forEach((column, place) => {
      const cell = element.children[place];
      setText(cell, column.text(row));
      const hover = column.hover?.(row) ?? "";
      if (cell.title !== hover) {
        cell.title = hover;
      }
      const classes = cellClass(column, row);
      if (cell.className !== classes) {
        cell.className = classes;
      }
    });
  }

  /** Tell which row is the current one, as long as it is an element. */
  #name(first, last) {
    if (this.#current >= first && this.#current < last) {
      this.table.setAttribute("aria-activedescendant", `${this.#id}-${this.#current}`);
    } else {
      this.table.removeAttribute("aria-activedescendant");
    }
  }

  #click(event) {
    const element = event.target.closest("tr");
    if (element && element.index !== undefined && getSelection().isCollapsed) {
      this.#mark(element.index);
      this.options.open?.(this.#rows[element.index]);
    }
  }

  #key(event) {
    if (event.target !== this.table || event.ctrlKey || event.metaKey || event.altKey) {
      return;
    }
    if (event.key === "Enter" && this.#rows[this.#current] !== undefined) {
      event.preventDefault();
      this.options.open?.(this.#rows[this.#current]);
      return;
    }
    const page = Math.max(1, Math.floor(this.scroller.clientHeight / this.#height()) - 2);
    const last = this.#rows.length - 1;
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -last, End: last };
    if (event.key in steps && last >= 0) {
      event.preventDefault();
      this.#mark(Math.min(last, Math.max(0, this.#current + steps[event.key])));
    }
  }

  #mark(index) {
    this.#current = Math.min(index, this.#rows.length - 1);
    this.#show(this.#current);
    this.draw();
  }

  #show(index) {
    const height = this.#height();
    const head = this.table.tHead.offsetHeight;
    const top = index * height;
    const { scrollTop, clientHeight } = this.scroller;
    if (top < scrollTop) {
      this.scroller.scrollTop = top;
    } else if (top + height > scrollTop + clientHeight - head) {
      this.scroller.scrollTop = top + height - clientHeight + head;
    }
  }

  /** Say why there are no rows. */
  set empty(content) {
    fill(this.none, content);
  }
}

/** The room that a column needs, in rem. */
function least(column) {
  return column.width ?? column.least ?? LEAST;
}

function sum(columns, value) {
  return columns.reduce((total, column) => total + value(column), 0);
}

/** A column that says how long ago something was; those who point at it see the date and the zone. */
export function agoColumn(label, timeOf, more = {}) {
  return {
    label,
    width: 7,
    text: (row) => (timeOf(row) ? `${agoBriefly(timeOf(row))} ago` : ""),
    hover: (row) => (timeOf(row) ? dateAndZone(timeOf(row)) : ""),
    ...more,
  };
}

function cellClass(column, row) {
  const classes = [`rank-${column.rank ?? 0}`];
  if (column.end) {
    classes.push("end");
  }
  if (column.mono) {
    classes.push("mono");
  }
  if (column.isLast) {
    classes.push("last");
  }
  const kind = row === undefined ? null : column.kind?.(row);
  return kind ? `${classes.join(" ")} ${kind}` : classes.join(" ");
}

/** Texts in the order of people; others as they are. */
function compared(one, other) {
  if (one === other) {
    return 0;
  }
  if (typeof one === "string" && typeof other === "string") {
    return natural(one, other);
  }
  return one < other ? -1 : 1;
}

/** A cell whose text does not fit has all of it as its title. */
function showCut(cell) {
  if (cell.tagName === "TD" && !cell.title && cell.scrollWidth > cell.clientWidth) {
    cell.title = cell.textContent;
  }
}
