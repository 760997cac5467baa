/* What sections are made of: elements, numbers for people, texts and tables. */

const SVG = "http://www.w3.org/2000/svg";

function el(name, attributes, ...children) {
  const node = document.createElement(name);
  for (const key in attributes || {}) node.setAttribute(key, attributes[key]);
  node.append(...children);
  return node;
}

function svg(name, attributes, text) {
  const node = document.createElementNS(SVG, name);
  for (const key in attributes) node.setAttribute(key, attributes[key]);
  if (text !== undefined) node.textContent = text;
  return node;
}

/* Draws now, and again at the width of the screen and of paper. */
const PAPER_WIDTH = 720;
const LABEL_WIDTH = 64; /* left of rows and axes */

function drawAtWidth(node, draw) {
  let width = -1;
  new ResizeObserver(() => requestAnimationFrame(() => {
    if (node.clientWidth !== width) draw();
    width = node.clientWidth;
  })).observe(node);
  addEventListener("beforeprint", () => draw(PAPER_WIDTH));
  addEventListener("afterprint", () => draw());
  draw();
}

/* ---- numbers for people ---- */

const TIME_UNITS = [[86400, "d"], [3600, "h"], [1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]];

function timeUnit(seconds) {
  return TIME_UNITS.find(([size]) => seconds >= size) || TIME_UNITS[TIME_UNITS.length - 1];
}

/* Ties to even, as the programs print them. */
function rounded(value, digits) {
  const scale = Math.pow(10, digits - 1 - Math.floor(Math.log10(Math.abs(value) || 1))), x = value * scale,
    near = Math.round(x);
  return +((x % 1 === 0.5 && near % 2 ? near - 1 : near) / scale).toPrecision(digits);
}

function seconds(value, unit) {
  const [size, name] = unit || timeUnit(Math.abs(value));
  return rounded(value / size, 4) + (name ? " " + name : "");
}

function bytes(value) {
  const names = ["B", "KiB", "MiB", "GiB", "TiB"];
  let i = 0;
  for (; Math.round(value) >= 1024 && i < names.length - 1; i++) value /= 1024;
  return rounded(value, value < 1000 ? 3 : 4) + " " + names[i];
}

/* Round steps of an axis, at most so many. */
function niceStep(span, most) {
  const raw = span / most, power = Math.pow(10, Math.floor(Math.log10(raw)));
  return [1, 2, 5, 10].map(x => x * power).find(x => x >= raw);
}

/* How a number stands below an axis: within its ends. */
function anchorAt(x, left, right) {
  return x > right - 20 ? "end" : x < left + 20 ? "start" : "middle";
}

/* ---- text and tables ---- */

/* A number and its unit stay in one line. */
function held(text) {
  return text.replace(/(\d) (?=(%|[num]?s|[kKMGTP]?i?B)\b|%)/g, "$1\u00a0");
}

/* Sentences as paragraphs, aligned columns as they are. */
function showText(section, root) {
  let columns = [];
  const put = () => {
    const style = "--columns: " + Math.max(...columns.map(line => line.length));
    if (columns.length > 0) root.append(el("pre", { tabindex: "0", style }, columns.join("\n")));
    columns = [];
  };
  for (const line of section.text.trimEnd().split("\n"))
    if (/ {2}/.test(line)) columns.push(line);
    else {
      put();
      if (line) root.append(el("p", {}, held(line)));
    }
  put();
}

/* A command to be copied: each option on a line of its own. */
function showCommand(section, root) {
  root.append(el("pre", { tabindex: "0", class: "command" }, section.text.trim().replace(/ (?=--\S)/g, " \\\n  ")));
}

function shareOf(cell) {
  const match = /^(\d+(?:\.\d+)?) %$/.exec(cell);
  return match ? Math.min(+match[1], 100) : -1;
}

function tableCell(text, left) {
  const cell = el("td", left ? { class: text.length > 60 ? "left long" : "left" } : {}, text);
  const share = left ? -1 : shareOf(text);
  if (share >= 0) {
    cell.className = "share";
    cell.style.setProperty("--share", share + "%");
  }
  return cell;
}

function showTable(section, root) {
  const [titles, ...rows] = section.rows, table = el("table", titles.length > 7 ? { class: "many" } : {});
  if (section.says) root.append(el("p", {}, held(section.says)));
  if (section.curve) showCurve(section.curve, root);
  if (titles.some(title => title))
    table.append(el("thead", {}, el("tr", {}, ...titles.map((title, i) =>
      el("th", section.left[i] ? { class: "left", scope: "col" } : { scope: "col" }, title)))));
  table.append(el("tbody", {}, ...rows.map(row =>
    el("tr", {}, ...row.map((cell, i) => tableCell(cell, section.left[i]))))));
  root.append(el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": section.heading }, table));
}
