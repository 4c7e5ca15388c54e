"use strict";
/* Elements are made once and then kept: a refresh changes text that has changed, and nothing else, so that nothing
 * flickers, and focus, selection and a screen reader's place stay where they are. Text is always text, never markup. */

const $ = id => document.getElementById(id);

function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes))
    if (value !== null && value !== undefined) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

function makeSvg(tag, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

function put(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function putAttribute(element, name, value) {
  if (element.getAttribute(name) !== value) element.setAttribute(name, value);
}

/* A short state in its colour; the word says it, too. */
function putPill(element, word, kind) {
  put(element, word);
  putAttribute(element, "class", `pill ${kind}`);
}

/* The children of `parent` become those of `items`, in order: `build(item)` makes what is new ({element, ...}),
 * `update(row, item)` fills all. */
function sync(parent, items, keyOf, build, update) {
  const rows = parent.kept ??= new Map();
  const gone = new Set(rows.keys());
  items.forEach((item, i) => {
    const key = String(keyOf(item));
    let row = rows.get(key);
    if (!row) rows.set(key, row = build(item));
    gone.delete(key);
    if (parent.children[i] !== row.element) parent.insertBefore(row.element, parent.children[i] ?? null);
    update(row, item);
  });
  for (const key of gone) {
    rows.get(key).element.remove();
    rows.delete(key);
  }
}

/* A table's head and what its rows have in its columns: {name, number, fill(cell, item)}. The roles are said outright,
 * because a narrow page lays rows out as blocks, and a table is then none for screen readers any more. */
function tableOf(headId, rowsId, columns) {
  for (const column of columns)
    $(headId).append(make("th", {scope: "col", role: "columnheader", class: column.number ? "number" : null}, column.name));
  return (items, keyOf) => sync($(rowsId), items, keyOf, () => {
    const cells = columns.map((column, i) => make(i ? "td" : "th", {
      role: i ? "cell" : "rowheader", scope: i ? null : "row", class: column.number ? "number" : null, "data-label": column.name}));
    return {element: make("tr", {role: "row"}, ...cells), cells};
  }, (row, item) => columns.forEach((column, i) => column.fill(row.cells[i], item)));
}

/* Options keep the choice as long as it is among them. */
function putOptions(select, names) {
  if ([...select.options].map(option => option.value).join("\n") === names.join("\n")) return;
  const chosen = select.value;
  select.replaceChildren(...names.map(name => make("option", {value: name}, name)));
  if (names.includes(chosen)) select.value = chosen;
}

/* --- units ------------------------------------------------------------------------------------ */

const count = new Intl.NumberFormat("en");
const NONE = "–";

function bytes(n) {
  if (n === undefined || n === null) return NONE;
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let i = 0;
  for (; n >= 1024 && i < units.length - 1; i++) n /= 1024;
  return `${n >= 100 || i === 0 ? Math.round(n) : n.toFixed(1)} ${units[i]}`;
}

function rate(n) {
  if (n === null || n === undefined) return NONE;
  return `${n >= 100 ? count.format(Math.round(n)) : n.toFixed(1)} tokens/s`;
}

function duration(seconds) {
  const s = Math.floor(seconds);
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60} s`;
  return s < 86400 ? `${Math.floor(s / 3600)} h ${Math.floor(s % 3600 / 60)} min` : `${Math.floor(s / 86400)} d ${Math.floor(s % 86400 / 3600)} h`;
}

const plural = (n, one, many) => `${count.format(n)} ${n === 1 ? one : many}`;
const timeOfDay = date => date.toLocaleTimeString(undefined, {hour12: false});
