// Tables of pictures, {columns: [name, …], rows: [[value, …], …]}, and short lists next to pictures.

import { element, fill } from "./elements.js";
import { short } from "./numbers.js";
import { plain } from "./scripts.js";

const ROW_HEIGHT = 28;
const ALL_AT_ONCE = 300;

/** A scrollable table. Of a long one, only visible rows are built. */
export function tableOf({ columns, rows }) {
  const body = element("tbody");
  const region = { class: "table", tabindex: 0, role: "region", "aria-label": "Table", "data-key": "table" };
  const table = element("table", { "aria-rowcount": rows.length }, headOf(columns), body);
  const frame = element("div", region, table);
  if (rows.length <= ALL_AT_ONCE) {
    fill(body, rows.map(line));
    return frame;
  }
  let first = -1;
  const show = () => {
    const start = Math.max(0, Math.floor(frame.scrollTop / ROW_HEIGHT) - 20);
    if (start === first) return;
    first = start;
    const end = Math.min(rows.length, start + 80);
    const rest = rows.length - end;
    fill(body, gap(start, columns.length), rows.slice(start, end).map(line), gap(rest, columns.length));
  };
  frame.addEventListener("scroll", show);
  show();
  return frame;
}

/** A short list of rows {cells, strong}; cells are texts or elements. */
export function listing(id, columns, rows) {
  const row = ({ cells, strong }) => element("tr", { class: strong && "strong" },
    cells.map((cell) => element("td", { dir: "auto" }, cell)));
  return element("div", { class: "table plain" },
    element("table", { id }, headOf(columns), element("tbody", {}, rows.map(row))));
}

function headOf(columns) {
  const names = columns.map((name) => element("th", { scope: "col" }, name));
  return element("thead", {}, element("tr", {}, names));
}

function line([first, ...values]) {
  const cell = (value) => {
    const counted = typeof value === "number";
    return element("td", { class: counted && "number", dir: !counted && "auto" }, format(value));
  };
  return element("tr", {}, element("th", { scope: "row" }, format(first)), values.map(cell));
}

/** A placeholder for rows that are not built. */
function gap(count, width) {
  const style = `height:${count * ROW_HEIGHT}px;padding:0;border:0`;
  return element("tr", { "aria-hidden": true }, element("td", { colspan: width, style }));
}

function format(value) {
  if (typeof value === "number") return Number.isInteger(value) ? String(value) : short(value, 4);
  return value ?? "";
}

/** Comma-separated values (RFC 4180), every number in full. */
export function csvOf({ columns, rows }) {
  return [columns, ...rows].map((row) => row.map(field).join(",")).join("\r\n") + "\r\n";
}

function field(value) {
  const text = plain(String(value ?? ""));
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
