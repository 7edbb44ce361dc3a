// A table that is told its rows again and again and touches only what is different, so that focus, selection and a
// screen reader's place stay where they are.

const ROWS_AT_A_TIME = 300; // drawn; the filter finds the others, and a button draws more

// A column: {key, title, cell(row, key) -> text or element, said(row, key) -> what `cell` depends on, sort(row, key),
// numeric, wide, ofChannel}. Without `said` a cell is drawn again when its text is another one. A column `ofChannel` is
// left out where all rows are of one channel. On a narrow screen each row is a card, with the titles in it: so every
// part has its role, because the style takes those away that a table has by itself.
class Table {
  constructor({ label, columns, empty, order = null, rowClass = () => "" }) {
    this.columns = columns;
    this.order = order; // {column, down}
    this.rowClass = rowClass;
    this.limit = ROWS_AT_A_TIME;
    this.drawn = new Map(); // key -> {row: element, said: [...]}
    this.heads = columns.map((column) => this.head(column));
    this.body = el("tbody", { role: "rowgroup" });
    this.empty = el("p", { class: "empty" }, empty);
    this.restText = el("span");
    this.rest = el("p", { class: "quiet rest" }, this.restText, " ", button("Show more", () => this.showMore(), { class: "small" }));
    this.table = el(
      "table",
      { role: "table" },
      el("caption", { class: "unseen" }, label),
      el("thead", { role: "rowgroup" }, el("tr", { role: "row" }, ...this.heads)),
      this.body,
    );
    this.element = el("div", { class: "framed" }, this.table, this.empty, this.rest);
  }

  head(column) {
    const attributes = { scope: "col", role: "columnheader", class: classesOf(column) };
    if (!column.sort || this.order === null) return el("th", attributes, column.title || el("span", { class: "unseen" }, column.label ?? ""));
    const press = () => {
      this.order = { column: column.key, down: this.order.column === column.key && !this.order.down };
      this.paint(this.last);
    };
    return el("th", attributes, button(column.title, press, { class: "sort" }));
  }

  showMore() {
    this.limit += ROWS_AT_A_TIME;
    this.paint(this.last);
  }

  paint(rows, ofOneChannel = false) {
    this.last = rows;
    this.element.classList.toggle("one-channel", ofOneChannel);
    const sorted = this.sorted(rows);
    const shown = sorted.slice(0, this.limit);
    this.empty.hidden = rows.length > 0;
    this.table.hidden = rows.length === 0;
    this.rest.hidden = sorted.length === shown.length;
    write(this.restText, `${count(sorted.length - shown.length)} more; the filter finds them.`);
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
      const cells = this.columns.map((column) => el("td", { role: "cell", class: classesOf(column), "data-title": column.title || null }));
      drawn = { row: el("tr", { role: "row" }, ...cells), cells, said: [] };
      this.drawn.set(key, drawn);
    }
    set(drawn.row, { class: this.rowClass(row, key) || null });
    this.columns.forEach((column, at) => {
      const said = column.said ? column.said(row, key) : column.cell(row, key);
      if (drawn.said[at] === said) return;
      drawn.said[at] = said;
      drawn.cells[at].replaceChildren(...(column.said ? [column.cell(row, key)] : breakable(said)));
    });
    // Only what stands elsewhere is moved: an element that is moved loses the focus.
    if (this.body.children[index] !== drawn.row) this.body.insertBefore(drawn.row, this.body.children[index] ?? null);
  }
}

function classesOf(column) {
  return [column.numeric && "numeric", column.wide && "wide", column.ofChannel && "of-channel"].filter(Boolean).join(" ") || null;
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

// The channel of a row, for tables with rows of several.
function channelColumn(app) {
  return {
    key: "channel",
    title: "Channel",
    ofChannel: true,
    said: (row) => `${row.channel} ${app.hueOf(row.channel)}`,
    cell: (row) => channelTag(app, row.channel),
    sort: (row) => row.channel,
  };
}

// A channel's name, or a text about something of it, with the channel's colour beside it.
function channelTag(app, channel, text = channel) {
  return el("span", { class: text.length > UNBROKEN ? "tag" : "tag unbroken", "data-hue": app.hueOf(channel) }, ...breakable(text));
}
