// A table that is told its rows again and again and touches only what is different, so that focus, selection and a
// screen reader's place stay where they are.

const MOST_ROWS = 300; // drawn at a time; the filter finds the others

// A column: {key, title, cell(row, key) -> text or element, said(row, key) -> what `cell` depends on, sort(row, key),
// numeric, wide}. Without `said` a cell is drawn again when its text is another one.
class Table {
  constructor({ label, columns, empty, order = null, rowClass = () => "" }) {
    this.columns = columns;
    this.order = order; // {column, down}
    this.rowClass = rowClass;
    this.drawn = new Map(); // key -> {row: element, said: [...]}
    this.heads = columns.map((column) => this.head(column));
    this.body = el("tbody");
    this.empty = el("p", { class: "empty" }, empty);
    this.rest = el("p", { class: "quiet rest" });
    this.table = el(
      "table",
      {},
      el("caption", { class: "unseen" }, label),
      el("thead", {}, el("tr", {}, ...this.heads)),
      this.body,
    );
    this.element = el("div", { class: "framed" }, this.table, this.empty, this.rest);
  }

  head(column) {
    const attributes = { scope: "col", class: classesOf(column) };
    if (!column.sort || this.order === null) return el("th", attributes, column.title);
    const press = () => {
      this.order = { column: column.key, down: this.order.column === column.key && !this.order.down };
      this.paint(this.last);
    };
    return el("th", attributes, button(column.title, press, { class: "sort" }));
  }

  paint(rows) {
    this.last = rows;
    const sorted = this.sorted(rows);
    const shown = sorted.slice(0, MOST_ROWS);
    this.empty.hidden = rows.length > 0;
    this.table.hidden = rows.length === 0;
    write(this.rest, sorted.length > shown.length ? `${count(sorted.length - shown.length)} more; the filter finds them` : "");
    const wanted = new Set(shown.map(({ key }) => key));
    for (const [key, { row }] of this.drawn) {
      if (wanted.has(key)) continue;
      row.remove();
      this.drawn.delete(key);
    }
    shown.forEach(({ key, row }, index) => this.paintRow(key, row, index));
    this.heads.forEach((head, index) => set(head, { "aria-sort": this.direction(this.columns[index].key) }));
  }

  direction(key) {
    if (this.order?.column !== key) return null;
    return this.order.down ? "descending" : "ascending";
  }

  sorted(rows) {
    const column = this.columns.find(({ key }) => key === this.order?.column);
    if (column === undefined) return rows;
    const keyed = rows.map((each) => [column.sort(each.row, each.key), each]);
    const sign = this.order.down ? -1 : 1;
    return keyed.sort(([a], [b]) => sign * compared(a, b)).map(([, each]) => each);
  }

  paintRow(key, row, index) {
    let drawn = this.drawn.get(key);
    if (drawn === undefined) {
      const cells = this.columns.map((column) => el("td", { class: classesOf(column) }));
      drawn = { row: el("tr", {}, ...cells), cells, said: [] };
      this.drawn.set(key, drawn);
    }
    set(drawn.row, { class: this.rowClass(row, key) || null });
    this.columns.forEach((column, at) => {
      const said = column.said ? column.said(row, key) : column.cell(row, key);
      if (drawn.said[at] === said) return;
      drawn.said[at] = said;
      drawn.cells[at].replaceChildren(column.said ? column.cell(row, key) : said);
    });
    // Only what stands elsewhere is moved: an element that is moved loses the focus.
    if (this.body.children[index] !== drawn.row) this.body.insertBefore(drawn.row, this.body.children[index] ?? null);
  }
}

function classesOf(column) {
  return [column.numeric ? "numeric" : "", column.wide ? "wide" : ""].join(" ").trim() || null;
}

function compared(a, b) {
  if (typeof a === "number" && typeof b === "number") return a - b;
  return String(a).localeCompare(String(b), "en", { numeric: true });
}

// Rows in which the text stands, anywhere.
function matching(rows, text) {
  const wanted = text.trim().toLowerCase();
  if (wanted === "") return rows;
  return rows.filter(({ key, row }) => `${key} ${JSON.stringify(row)}`.toLowerCase().includes(wanted));
}
