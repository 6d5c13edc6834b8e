/**
 * A table of any length: only the rows in sight are elements, and they are used again for other rows.
 *
 * The table has the keyboard's focus and names its current row (`aria-activedescendant`), so that a row can leave the
 * sight, or be used for another one, without the focus being lost.
 */

import { fill, h, setText } from "./dom.js";
import { eachFrame } from "./frame.js";
import { natural } from "./names.js";

/** Rows above and below those in sight. */
const SPARE = 6;
/** Columns without a width share what is left, and have at least so many rem. */
const LEAST = 11;
const MOST_RANK = 4;
let tables = 0;

export class Table {
  #rows = [];
  #elements = [];
  #current = -1;
  #sort = null;
  #id = `table-${(tables += 1)}`;

  /**
   * @param {object} options `caption`; `columns`, see `column` below; `key(row)`; `open(row)`, what Enter and a click do;
   *   `empty`, an element that is shown instead of no rows; `sort`, the label of a column, with a `-` for falling;
   *   `kind(row)`, a class of the row.
   *
   * A column has a `label`, `text(row)`, and perhaps `sort(row)`, `width` in rem, `least` in rem if it has none, `end` for numbers, `rank` (the higher,
   * the sooner it is left out when there is little room), `mono`, `hover(row)`, a text for those who point at it, and `kind(row)`, a class of the cell. A cell that is cut
   * shows all of its text to those who point at it.
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

  /** Leave out columns of the highest ranks, until those that are left have room. */
  #fit(width) {
    const rem = parseFloat(getComputedStyle(document.documentElement).fontSize);
    let rank = MOST_RANK;
    while (rank > 0 && this.#wanted(rank) * rem > width) {
      rank -= 1;
    }
    this.table.className = `up-to-${rank}`;
    this.draw();
  }

  /** The room that columns of these ranks need, in rem. */
  #wanted(rank) {
    const shown = this.columns.filter((column) => (column.rank ?? 0) <= rank);
    return shown.reduce((sum, column) => sum + (column.width ?? column.least ?? LEAST), 0);
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
      { role: "grid", tabindex: "0", "aria-label": this.options.caption, onkeydown: (event) => this.#key(event) },
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
    this.rows = this.#rows;
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

  #sorted(rows) {
    if (!this.#sort) {
      return rows;
    }
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

function cellClass(column, row) {
  const classes = [`rank-${column.rank ?? 0}`];
  if (column.end) {
    classes.push("end");
  }
  if (column.mono) {
    classes.push("mono");
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
