"use strict";
/* Shows the sections of a report: each kind has a function that fills its element. */

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
  const scale = Math.pow(10, digits - 1 - Math.floor(Math.log10(Math.abs(value) || 1))), x = value * scale, near = Math.round(x);
  return +((x % 1 === 0.5 && near % 2 ? near - 1 : near) / scale).toPrecision(digits);
}

function seconds(value, unit) {
  const [size, name] = unit || timeUnit(Math.abs(value));
  return rounded(value / size, 4) + " " + name;
}

function bytes(value) {
  const names = ["B", "KiB", "MiB", "GiB", "TiB"];
  let i = 0;
  for (; value >= 1024 && i < names.length - 1; i++) value /= 1024;
  return rounded(value, 3) + " " + names[i];
}

/* Round steps of an axis, at most so many. */
function niceStep(span, most) {
  const raw = span / most, power = Math.pow(10, Math.floor(Math.log10(raw)));
  return [1, 2, 5, 10].map(x => x * power).find(x => x >= raw);
}

/* ---- text and tables ---- */

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
      if (line) root.append(el("p", {}, line));
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
  const [titles, ...rows] = section.rows, table = el("table");
  if (section.says) root.append(el("p", {}, section.says));
  if (titles.some(title => title))
    table.append(el("thead", {}, el("tr", {}, ...titles.map((title, i) =>
      el("th", section.left[i] ? { class: "left", scope: "col" } : { scope: "col" }, title)))));
  table.append(el("tbody", {}, ...rows.map(row =>
    el("tr", {}, ...row.map((cell, i) => tableCell(cell, section.left[i]))))));
  root.append(el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": section.heading }, table));
}

/* ---- timeline ---- */

const OP_CLASSES = [
  { name: "products and attention", color: "#5b6b85" }, { name: "bound by memory", color: "#a8b2c1" },
  { name: "tensor-parallel communication", color: "#c53030" }, { name: "context-parallel communication", color: "#b7791f" },
  { name: "expert-parallel communication", color: "#6b46c1" }, { name: "other communication", color: "#2c7a7b" },
];
const LABEL_WIDTH = 64, ROW_GAP = 6, AXIS_HEIGHT = 24, BIN = 3, INSIDE_WIDTH = 90;

/* Absolute times of the spans of a lane. */
function unpack(lane) {
  const n = lane.length / 4, spans = { n, from: new Float64Array(n), to: new Float64Array(n), bar: new Uint32Array(n), micro: new Uint32Array(n) };
  let at = 0;
  for (let i = 0; i < n; i++) {
    spans.from[i] = at + lane[4 * i];
    spans.to[i] = at = spans.from[i] + lane[4 * i + 1];
    spans.bar[i] = lane[4 * i + 2];
    spans.micro[i] = lane[4 * i + 3];
  }
  return spans;
}

/* The first span that ends behind a time. */
function firstAfter(spans, time) {
  let low = 0, high = spans.n;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (spans.to[middle] > time) high = middle; else low = middle + 1;
  }
  return low;
}

class Timeline {
  constructor(section, root) {
    this.section = section;
    this.rows = section.rows.map(row => ({ name: row.name, lanes: row.lanes.map(unpack) }));
    this.lanes = section.lane_names.map((name, i) => i).filter(i => this.rows.some(row => row.lanes[i].n > 0));
    this.whole = section.end_s / section.tick_s;
    this.view = [0, this.whole];
    this.chosen = null;
    this.build(root);
  }

  build(root) {
    const buttons = [["Whole step", () => this.show(0, this.whole)], ["+", () => this.zoom(0.5)], ["−", () => this.zoom(2)],
      ["◀", () => this.move(-0.5)], ["▶", () => this.move(0.5)], ["One pass", () => this.onePass()]];
    const names = { "+": "zoom in", "−": "zoom out", "◀": "earlier", "▶": "later" };
    const tools = el("div", { class: "tools" }, ...buttons.map(([text, act]) => {
      const button = el("button", { type: "button", "aria-label": names[text] || text }, text);
      button.addEventListener("click", act);
      return button;
    }));
    this.svg = svg("svg", { class: "timeline", tabindex: "0", role: "img",
      "aria-label": "timeline of " + this.section.stages + " stages; plus and minus zoom, arrows move, 0 shows all" });
    this.detail = el("div", { class: "detail", "aria-live": "polite" });
    root.append(this.note(), tools, this.svg, this.legend(), this.detail);
    this.listen();
  }

  note() {
    const s = this.section, parts = [];
    if (s.rows.length < s.stages) parts.push(s.rows.length + " of " + s.stages + " stages are shown, the fullest among them");
    if (s.end_s < s.step_s) parts.push("the first " + seconds(s.end_s) + " of " + seconds(s.step_s) + " are shown");
    const shown = parts.join("; "), help = "Wheel, pinch or + and − zoom, drag or arrows move, a click says what a bar is; " +
      "wide passes show their operators, communication below computation.";
    return el("p", { class: "soft" }, shown ? shown[0].toUpperCase() + shown.slice(1) + ". " : "", el("span", { class: "help" }, help));
  }

  legend() {
    const entries = new Map();
    for (const bar of this.section.bars)
      if (!entries.has(bar.name)) entries.set(bar.name, bar.color);
    const used = new Set(this.section.sets.flatMap(set => set.filter((x, i) => i % 3 === 1)));
    OP_CLASSES.forEach((c, i) => { if (used.has(i)) entries.set("in a pass: " + c.name, c.color); });
    const chunks = Math.max(...this.section.bars.map(bar => bar.chunk || 0));
    return el("div", { class: "legend" }, chunks > 0 ? "Chunks 0 to " + chunks + " from dark to light." : "", ...[...entries].map(([name, color]) => {
      const square = el("i");
      square.style.background = color;
      return el("span", {}, square, name);
    }));
  }

  listen() {
    const at = event => this.timeAt(event.clientX);
    const fingers = new Map();
    this.svg.addEventListener("wheel", event => {
      if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) this.move((event.deltaX || event.deltaY) / 800);
      else if (event.ctrlKey || event.altKey || document.activeElement === this.svg) this.zoom(event.deltaY < 0 ? 0.8 : 1.25, at(event));
      else return;
      event.preventDefault();
    }, { passive: false });
    this.svg.addEventListener("pointerdown", event => {
      fingers.set(event.pointerId, event.clientX);
      this.moved = false;
      this.svg.focus({ preventScroll: true });
    });
    this.svg.addEventListener("pointermove", event => {
      if (!fingers.has(event.pointerId)) return;
      const before = [...fingers.values()], shift = event.clientX - fingers.get(event.pointerId);
      if (Math.abs(shift) < 3 && !this.moved) return;
      this.moved = true;
      fingers.set(event.pointerId, event.clientX);
      const now = [...fingers.values()];
      if (now.length === 2)
        this.zoom(Math.abs(before[0] - before[1]) / Math.max(Math.abs(now[0] - now[1]), 1), this.timeAt((now[0] + now[1]) / 2));
      else this.move(-shift / this.width());
    });
    this.svg.addEventListener("pointerup", event => {
      if (!this.moved && fingers.size === 1) this.choose(event);
      fingers.delete(event.pointerId);
    });
    for (const name of ["pointercancel", "pointerleave"])
      this.svg.addEventListener(name, event => fingers.delete(event.pointerId));
    this.svg.addEventListener("keydown", event => {
      const keys = { "+": () => this.zoom(0.5), "=": () => this.zoom(0.5), "-": () => this.zoom(2), "0": () => this.show(0, this.whole),
        ArrowLeft: () => this.move(-0.25), ArrowRight: () => this.move(0.25), Enter: () => this.onePass() };
      if (!keys[event.key] || event.ctrlKey || event.metaKey) return;
      keys[event.key]();
      event.preventDefault();
    });
    drawAtWidth(this.svg, width => this.draw(width));
  }

  width() { return Math.max((this.drawn || this.svg.clientWidth || 1000) - LABEL_WIDTH, 50); }

  timeAt(clientX) {
    const box = this.svg.getBoundingClientRect(), scale = (this.width() + LABEL_WIDTH) / Math.max(box.width, 1);
    return this.view[0] + ((clientX - box.left) * scale - LABEL_WIDTH) / this.width() * (this.view[1] - this.view[0]);
  }

  show(from, to) {
    const least = Math.min(20, this.whole), size = Math.min(Math.max(to - from, least), this.whole);
    const start = Math.min(Math.max(from, 0), this.whole - size);
    this.view = [start, start + size];
    this.draw();
  }

  zoom(factor, around) {
    const [from, to] = this.view, at = around === undefined ? (from + to) / 2 : around;
    this.show(at - (at - from) * factor, at + (to - at) * factor);
  }

  move(share) {
    const size = this.view[1] - this.view[0];
    this.show(this.view[0] + share * size, this.view[1] + share * size);
  }

  /* The chosen bar, else the longest of the first row's next passes, over the whole width. */
  onePass() {
    let span = this.chosen;
    const spans = this.rows[0].lanes[0], first = firstAfter(spans, this.view[0]);
    for (let i = first; !this.chosen && i < Math.min(first + 20, spans.n); i++)
      if (!span || spans.to[i] - spans.from[i] > span.to - span.from) span = { from: spans.from[i], to: spans.to[i] };
    if (span) this.show(span.from - 0.05 * (span.to - span.from), span.to + 0.05 * (span.to - span.from));
  }

  rowHeight() {
    const n = this.rows.length;
    return n <= 4 ? 84 : n <= 8 ? 62 : n <= 16 ? 44 : 30;
  }

  /* Top and height of a lane in its row: computation above, a strip for each other lane. */
  strip(lane) {
    const place = this.lanes.indexOf(lane), h = this.rowHeight(), others = this.lanes.length - (this.lanes.includes(0) ? 1 : 0);
    const strip = Math.min(10, 0.55 * h / Math.max(others, 1)), top = h - others * strip;
    return lane === 0 ? [0, top - 1] : [top + (place - (this.lanes.includes(0) ? 1 : 0)) * strip, strip - 1];
  }

  draw(width) {
    this.drawn = width;
    const w = this.width() + LABEL_WIDTH, h = this.rows.length * (this.rowHeight() + ROW_GAP) + AXIS_HEIGHT;
    this.svg.setAttribute("viewBox", "0 0 " + w + " " + h);
    this.svg.setAttribute("height", h);
    this.svg.replaceChildren();
    const top = i => i * (this.rowHeight() + ROW_GAP);
    this.rows.forEach((row, i) => this.drawRow(row, top(i)));
    this.drawAxis(h - AXIS_HEIGHT);
    this.rows.forEach((row, i) => this.lanes.forEach(lane => {
      const [offset, height] = this.strip(lane);
      this.drawLane(row.lanes[lane], top(i) + offset, height, lane === 0);
    }));
  }

  x(time) { return LABEL_WIDTH + (time - this.view[0]) / (this.view[1] - this.view[0]) * this.width(); }

  drawAxis(y) {
    const tick = this.section.tick_s, from = this.view[0] * tick, to = this.view[1] * tick;
    const step = niceStep(to - from, Math.max(this.width() / 110, 2)), unit = timeUnit(to);
    for (let at = Math.ceil(from / step) * step; at <= to + step * 1e-6; at += step) {
      const x = this.x(at / tick);
      this.svg.append(svg("line", { x1: x, x2: x, y1: 0, y2: y + 4, class: "axis" }));
      const digits = Math.max(0, -Math.floor(Math.log10(step / unit[0]) + 1e-9));
      const anchor = x > this.width() + LABEL_WIDTH - 20 ? "end" : x < LABEL_WIDTH + 20 ? "start" : "middle";
      this.svg.append(svg("text", { x, y: y + 17, "text-anchor": anchor, class: "soft" },
        (at / unit[0]).toFixed(digits) + " " + unit[1]));
    }
  }

  drawRow(row, top) {
    this.svg.append(svg("text", { x: LABEL_WIDTH - 6, y: top + 14, "text-anchor": "end" }, row.name));
    for (const lane of this.lanes) {
      const [offset, height] = this.strip(lane);
      this.svg.append(svg("rect", { x: LABEL_WIDTH, y: top + offset, width: this.width(), height, class: "idle" }));
    }
  }

  /* Boxes that are wide enough as such, one path a colour; what is narrower as shares of the time of a few pixels. */
  drawLane(spans, top, height, labels) {
    const paths = new Map(), texts = [], bins = new Map(), inside = [], end = this.view[1];
    const add = (color, d) => paths.set(color, (paths.get(color) || "") + d);
    for (let i = firstAfter(spans, this.view[0]); i < spans.n && spans.from[i] < end; i++) {
      const x = Math.max(this.x(spans.from[i]), LABEL_WIDTH), to = Math.min(this.x(spans.to[i]), LABEL_WIDTH + this.width());
      const bar = this.section.bars[spans.bar[i]];
      if (to - x < BIN) {
        this.share(bins, spans.bar[i], x, to);
        continue;
      }
      const w = to - x - (to - x > 4 ? 0.6 : 0);
      add(bar.color, "M" + x.toFixed(1) + " " + top + "h" + w.toFixed(1) + "v" + height + "h" + (-w).toFixed(1) + "z");
      if (labels && w > 5 + 7 * String(spans.micro[i]).length && bar.chunk !== undefined) texts.push([(x + to) / 2, spans.micro[i], bar.ink, w]);
      if (labels && bar.inside && this.x(spans.to[i]) - this.x(spans.from[i]) > INSIDE_WIDTH) inside.push([spans.from[i], spans.to[i], bar]);
    }
    this.addShares(bins, top, height, add);
    for (const [fill, d] of paths) this.svg.append(svg("path", { d, fill }));
    for (const [from, to, bar] of inside) this.drawInside(from, to, bar, top, height);
    for (const [x, micro, ink] of texts)
      this.svg.append(svg("text", { x, y: top + Math.min(height, 26) / 2 + 4, "text-anchor": "middle", style: "fill:" + ink }, micro));
  }

  share(bins, bar, x, to) {
    for (let bin = Math.floor(x / BIN); bin * BIN <= to; bin++) {
      const part = Math.min(to, (bin + 1) * BIN) - Math.max(x, bin * BIN);
      if (part <= 0) continue;
      if (!bins.has(bin)) bins.set(bin, new Map());
      bins.get(bin).set(bar, (bins.get(bin).get(bar) || 0) + part / BIN);
    }
  }

  addShares(bins, top, height, add) {
    for (const [bin, bars] of bins) {
      let bottom = top + height;
      for (const [bar, share] of [...bars].sort((a, b) => a[0] - b[0])) {
        const h = Math.min(share, 1) * height;
        bottom -= h;
        add(this.section.bars[bar].color, "M" + bin * BIN + " " + bottom.toFixed(1) + "h" + BIN + "v" + h.toFixed(1) + "h-" + BIN + "z");
      }
    }
  }

  /* The operators of a pass, one after another as they are issued: computation above, communication below. */
  drawInside(from, to, bar, top, height) {
    const paths = new Map(), total = this.insideSeconds(bar);
    const y = top + height * 0.5, h = height * 0.24, scale = (to - from) / total;
    let at = from;
    for (let i = 0; i < bar.inside.length; i += 3)
      for (let repeat = 0; repeat < bar.inside[i + 2]; repeat++) {
        const set = this.section.sets[bar.inside[i]], layer = bar.inside[i + 1];
        const length = set.reduce((sum, value, j) => sum + (j % 3 === 2 ? value : 0), 0) || 1;
        let within = at;
        for (let j = 0; j < set.length; j += 3) {
          const next = within + set[j + 2] / length * layer * scale;
          const x = Math.max(this.x(within), LABEL_WIDTH), end = Math.min(this.x(next), LABEL_WIDTH + this.width());
          const below = set[j + 1] >= 2;
          if (end > x)
            paths.set(set[j + 1], (paths.get(set[j + 1]) || "") + "M" + x.toFixed(2) + " " + (y + (below ? h : 0)).toFixed(1) +
              "h" + Math.max(end - x, 0.3).toFixed(2) + "v" + h.toFixed(1) + "h-" + Math.max(end - x, 0.3).toFixed(2) + "z");
          within = next;
        }
        at += layer * scale;
      }
    for (const [kind, d] of paths) this.svg.append(svg("path", { d, fill: OP_CLASSES[kind].color }));
  }

  insideSeconds(bar) {
    let sum = 0;
    for (let i = 0; i < bar.inside.length; i += 3) sum += bar.inside[i + 1] * bar.inside[i + 2];
    return sum;
  }

  /* What lies under the pointer. */
  choose(event) {
    const box = this.svg.getBoundingClientRect(), y = (event.clientY - box.top) * this.svg.viewBox.baseVal.height / box.height;
    const index = Math.floor(y / (this.rowHeight() + ROW_GAP)), row = this.rows[index], time = this.timeAt(event.clientX);
    if (!row) return;
    const inRow = y - index * (this.rowHeight() + ROW_GAP);
    const lane = this.lanes.find(l => inRow >= this.strip(l)[0] && inRow <= this.strip(l)[0] + this.strip(l)[1] + 1);
    if (lane === undefined) return;
    const spans = row.lanes[lane], i = firstAfter(spans, time);
    if (i < spans.n && spans.from[i] <= time) this.describe(row, lane, spans, i);
    else { this.chosen = null; this.detail.replaceChildren(el("p", { class: "soft" }, row.name + ", " + this.section.lane_names[lane] + ": idle")); }
  }

  describe(row, lane, spans, i) {
    const bar = this.section.bars[spans.bar[i]], tick = this.section.tick_s, from = spans.from[i] * tick, to = spans.to[i] * tick;
    const words = [row.name, bar.name + (bar.chunk !== undefined ? " of micro-batch " + spans.micro[i] + ", chunk " + bar.chunk : "")];
    if (bar.layers > 0) words.push(bar.layers > 1 ? "layers " + bar.first_layer + " to " + (bar.first_layer + bar.layers - 1) : "layer " + bar.first_layer);
    words.push(seconds(to - from) + ", from " + seconds(from) + " to " + seconds(to));
    if (bar.bytes) words.push(bytes(bar.bytes) + (bar.ranks > 1 ? " over " + bar.ranks + " ranks" : ""));
    this.chosen = { from: spans.from[i], to: spans.to[i] };
    this.detail.replaceChildren(el("p", {}, words.join(" · ")), ...this.operators(bar));
  }

  /* The operators of a pass with their times on their own. */
  operators(bar) {
    if (!bar.inside) return [];
    const sums = new Map();
    for (let i = 0; i < bar.inside.length; i += 3) {
      const set = this.section.sets[bar.inside[i]];
      for (let j = 0; j < set.length; j += 3) {
        const key = set[j] + "\n" + set[j + 1], old = sums.get(key) || [0, 0];
        sums.set(key, [old[0] + set[j + 2] * bar.inside[i + 2], old[1] + bar.inside[i + 2]]);
      }
    }
    const rows = [...sums].sort((a, b) => b[1][0] - a[1][0]), total = rows.reduce((sum, row) => sum + row[1][0], 0);
    const node = el("div");
    showTable({ heading: "operators of the pass", left: [true, true, false, false, false], says: "Operators of the pass, each on its own; some overlap.",
      rows: [["operator", "kind", "times", "time", "share"], ...rows.map(([key, [time, count]]) => {
        const [name, kind] = key.split("\n");
        return [name, OP_CLASSES[kind].name, String(count), seconds(time), (100 * time / total).toFixed(1) + " %"];
      })] }, node);
    return [node];
  }
}

/* ---- memory ---- */

function showMemory(section, root) {
  const select = el("select", { "aria-label": "stage" }, ...section.rows.map((row, i) => el("option", { value: i }, row.name + ": peak " + bytes(row.peak_bytes))));
  const over = svg("svg", { role: "img", "aria-label": "memory over the step" }), peaks = svg("svg", { role: "img", "aria-label": "peak of each stage" });
  select.value = section.fullest;
  root.append(el("div", { class: "tools" }, "Stage", select), over,
    el("div", { class: "legend" }, ...section.parts.map(part => {
      const square = el("i");
      square.style.background = part.color;
      return el("span", {}, square, part.name);
    })));
  if (section.rows.length > 1) root.append(el("p", { class: "soft" }, "Peak of each stage"), peaks);
  const draw = width => { memoryOver(section, +select.value, over, width); memoryPeaks(section, peaks, width); };
  select.addEventListener("change", () => draw());
  drawAtWidth(over, draw);
}

/* A frame with bytes at the left; returns how they become pixels. */
function memoryFrame(node, height, most, limits, width) {
  const w = width || node.clientWidth || 1000, unit = 1024 ** Math.floor(Math.log(Math.max(most, 2)) / Math.log(1024));
  const step = niceStep(most / unit, 5) * unit, y = value => height - 20 - value / most * (height - 30);
  node.setAttribute("viewBox", "0 0 " + w + " " + height);
  node.setAttribute("height", height);
  node.replaceChildren();
  for (let at = 0; at <= most; at += step) {
    node.append(svg("line", { x1: LABEL_WIDTH, x2: w, y1: y(at), y2: y(at), class: "axis" }));
    node.append(svg("text", { x: LABEL_WIDTH - 6, y: y(at) + 4, "text-anchor": "end", class: "soft" }, bytes(at)));
  }
  const says = limits.map(([value, text]) => text + " " + bytes(value));
  const close = limits.length > 1 && y(limits[1][0]) - y(limits[0][0]) < 16; /* then both names stand above the upper line */
  if (close) says.splice(0, 2, says.join(", "));
  limits.forEach(([value], i) => {
    node.append(svg("line", { x1: LABEL_WIDTH, x2: w, y1: y(value), y2: y(value), class: "limit" }));
    if (says[i]) node.append(svg("text", { x: w - 2, y: y(value) - 4, "text-anchor": "end" }, says[i]));
  });
  return { w, y };
}

function memoryLimits(row) {
  const limits = [[row.capacity_bytes, "device"]];
  if (row.usable_bytes < row.capacity_bytes * 0.999) limits.push([row.usable_bytes, "less the margin"]);
  return row.peak_bytes > 0.25 * row.capacity_bytes ? limits : [];
}

function memoryOver(section, index, node, width) {
  const row = section.rows[index], limits = memoryLimits(row);
  const most = 1.06 * Math.max(row.peak_bytes, ...limits.map(limit => limit[0])), { w, y } = memoryFrame(node, 260, most, limits, width);
  const x = time => LABEL_WIDTH + time / section.end_s * (w - LABEL_WIDTH);
  const activations = section.parts.findIndex(part => part.name === "activations"), buffers = section.parts.findIndex(part => part.name === "buffers");
  const levels = section.parts.map(() => []);
  for (let i = 0; i < row.points.length; i += 3) {
    const values = row.parts.slice();
    values[activations] = row.points[i + 1];
    values[buffers] = row.points[i + 2];
    let sum = 0;
    values.forEach((value, part) => levels[part].push([row.points[i] / 1e6, sum += value]));
  }
  for (let part = 0; part < levels.length; part++) { /* larger sums behind smaller ones */
    const line = levels[part];
    let d = "M" + x(0).toFixed(1) + " " + y(0).toFixed(1);
    line.forEach(([time, value], i) => {
      const to = i + 1 < line.length ? line[i + 1][0] : section.end_s;
      d += "L" + x(time).toFixed(1) + " " + y(value).toFixed(1) + "H" + x(to).toFixed(1);
    });
    const shape = svg("path", { d: d + "V" + y(0).toFixed(1) + "z", fill: section.parts[part].color });
    node.prepend(shape);
  }
  node.prepend(svg("rect", { x: LABEL_WIDTH, y: 0, width: w - LABEL_WIDTH, height: y(0), class: "idle", opacity: 0.5 }));
  const step = niceStep(section.end_s, Math.max((w - LABEL_WIDTH) / 110, 2)), unit = timeUnit(section.end_s);
  for (let at = 0; at <= section.end_s * 1.000001; at += step)
    node.append(svg("text", { x: x(at), y: y(0) + 16, "text-anchor": at === 0 ? "start" : x(at) > w - 20 ? "end" : "middle", class: "soft" },
      +(at / unit[0]).toPrecision(4) + " " + unit[1]));
}

function memoryPeaks(section, node, width) {
  const first = section.rows[section.fullest], limits = memoryLimits(first);
  const most = 1.06 * Math.max(...section.rows.map(row => row.peak_bytes), ...limits.map(limit => limit[0]));
  const { w, y } = memoryFrame(node, 180, most, limits, width), each = (w - LABEL_WIDTH) / section.rows.length;
  section.rows.forEach((row, i) => {
    let sum = 0;
    row.parts.forEach((value, part) => {
      node.prepend(svg("rect", { x: LABEL_WIDTH + i * each + 1, width: Math.max(each - 2, 1), y: y(sum + value), height: y(sum) - y(sum + value), fill: section.parts[part].color }));
      sum += value;
    });
    if (each > 22 || i % Math.ceil(30 / each) === 0)
      node.append(svg("text", { x: LABEL_WIDTH + (i + 0.5) * each, y: 176, "text-anchor": "middle", class: "soft" }, row.name.replace("stage ", "")));
  });
}

/* ---- predicted over measured ---- */

const SERIES_HUES = 12;

/* Rows of points: above the line of what was measured, predictions are too slow. */
function showPoints(section, root) {
  const node = svg("svg", { role: "img", "aria-label": "predicted over measured seconds" }), shown = new Set(section.series.map(s => s.name));
  const detail = el("div", { class: "detail", "aria-live": "polite" }, el("p", { class: "soft" }, "A click on a point names its run; a click on a source hides or shows it."));
  const draw = width => drawPoints(section, node, shown, detail, width);
  const legend = el("div", { class: "tools" }, ...section.series.map((series, i) => {
    const square = el("i"), button = el("button", { type: "button", "aria-pressed": "true", class: "key" }, square, series.name);
    square.style.background = hue(i);
    button.addEventListener("click", () => {
      if (!shown.delete(series.name)) shown.add(series.name);
      button.setAttribute("aria-pressed", String(shown.has(series.name)));
      draw();
    });
    return button;
  }));
  root.append(el("p", {}, section.says), node, detail, legend);
  drawAtWidth(node, draw);
}

function hue(i) {
  return "hsl(" + Math.round(360 * (i % SERIES_HUES) / SERIES_HUES) + " 65% " + (i < SERIES_HUES ? 42 : 62) + "%)";
}

function drawPoints(section, node, shown, detail, width) {
  const w = width || node.clientWidth || 800, h = Math.min(w, 560), values = section.series.flatMap(s => s.points.filter((x, i) => i % 3));
  const low = Math.log10(Math.min(...values)) - 0.1, high = Math.log10(Math.max(...values)) + 0.1;
  const x = v => LABEL_WIDTH + (Math.log10(v) - low) / (high - low) * (w - LABEL_WIDTH - 8), y = v => h - 34 - (Math.log10(v) - low) / (high - low) * (h - 44);
  node.setAttribute("viewBox", "0 0 " + w + " " + h);
  node.setAttribute("height", h);
  node.replaceChildren();
  for (let power = Math.ceil(low); power <= high; power++) {
    const at = Math.pow(10, power);
    node.append(svg("line", { x1: x(at), x2: x(at), y1: 8, y2: h - 34, class: "axis" }), svg("line", { x1: LABEL_WIDTH, x2: w, y1: y(at), y2: y(at), class: "axis" }));
    node.append(svg("text", { x: x(at), y: h - 18, "text-anchor": "middle", class: "soft" }, seconds(at)), svg("text", { x: LABEL_WIDTH - 6, y: y(at) + 4, "text-anchor": "end", class: "soft" }, seconds(at)));
  }
  const ends = [Math.pow(10, low), Math.pow(10, high)];
  node.append(svg("line", { x1: x(ends[0]), x2: x(ends[1]), y1: y(ends[0]), y2: y(ends[1]), class: "limit" }));
  node.append(svg("text", { x: w - 8, y: h - 2, "text-anchor": "end" }, "measured"), svg("text", { x: LABEL_WIDTH + 6, y: 18 }, "predicted"));
  section.series.forEach((series, s) => {
    for (let i = 0; shown.has(series.name) && i < series.points.length; i += 3) {
      const [name, measured, predicted] = series.points.slice(i, i + 3);
      const point = svg("circle", { cx: x(measured).toFixed(1), cy: y(predicted).toFixed(1), r: 3.5, fill: hue(s), opacity: 0.75 });
      point.addEventListener("click", () => detail.replaceChildren(el("p", {}, [series.name + ": " + name, "measured " + seconds(measured),
        "predicted " + seconds(predicted), (100 * (predicted / measured - 1)).toFixed(1) + " %"].join(" · "))));
      node.append(point);
    }
  });
}

/* ---- what an answer draws ---- */

const CURVE_UNITS = { seconds, bytes, change: v => (v > 0 ? "+" : "") + (100 * v).toFixed(1) + " %", share: v => (100 * v).toFixed(0) + " %",
  count: v => String(v), real: scaled };
const CURVE_COLORS = ["#2b6cb0", "#d9730d", "#2e8b64", "#6b46c1"];

function scaled(value) {
  const [size, name] = [[1e12, " T"], [1e9, " G"], [1e6, " M"], [1e4, " k"], [0, ""]].find(([s]) => Math.abs(value) >= s);
  return +(value / (name === " k" ? 1e3 : size || 1)).toPrecision(4) + name;
}

/* Names have bars beside them, numbers are places on two axes; a line joins the points of a series. */
function showCurve(section, root) {
  const node = svg("svg", { role: "img", "aria-label": section.y.title + " over " + section.x.title });
  const detail = el("div", { class: "detail", "aria-live": "polite" }, el("p", { class: "soft" }, "A click on a point names its plan."));
  const named = section.x.unit === "name";
  root.append(node);
  if (section.series.length > 1)
    root.append(el("div", { class: "legend" }, ...section.series.map((series, i) => {
      const square = el("i");
      square.style.background = CURVE_COLORS[i % CURVE_COLORS.length];
      return el("span", {}, square, series.name);
    })));
  if (!named) root.append(detail);
  drawAtWidth(node, width => (named ? drawBars : drawCurve)(section, node, detail, width));
}

/* An axis from the least to the most value, by powers where they differ much. */
function curveAxis(values, from, to, doubling) {
  const least = Math.min(...values), most = Math.max(...values), powers = least > 0 && most / least > 8;
  const low = powers ? Math.log2(least) : least, high = powers ? Math.log2(most) : most, span = high - low || Math.abs(high) || 1;
  const at = v => from + ((powers ? Math.log2(v) : v) - low + 0.05 * span) / (1.1 * span) * (to - from);
  const step = niceStep(span, 5), ticks = [];
  if (powers && doubling)
    for (let t = low; t <= high + 1e-9; t += Math.max(Math.round(span / 6), 1)) ticks.push(Math.pow(2, t));
  else if (powers)
    for (let power = Math.pow(10, Math.floor(Math.log10(least))); power <= most; power *= 10)
      ticks.push(...[1, 2, 5].map(x => x * power).filter(t => t >= least && t <= most));
  else
    for (let t = Math.ceil(low / step) * step; t <= high + span * 1e-9; t += step) ticks.push(+t.toPrecision(12));
  return { at, ticks };
}

function drawCurve(section, node, detail, width) {
  const w = width || node.clientWidth || 800, h = Math.min(w * 0.6, 420), left = 84;
  const points = section.series.map(s => s.points.filter((p, i) => i % 3 === 0).map((p, i) => s.points.slice(3 * i, 3 * i + 3)));
  const x = curveAxis(points.flat().map(p => p[0]), left, w - 12, section.x.unit === "count"), y = curveAxis(points.flat().map(p => p[1]), h - 40, 22);
  const say = (axis, v) => CURVE_UNITS[axis.unit](v);
  node.setAttribute("viewBox", "0 0 " + w + " " + h);
  node.setAttribute("height", h);
  node.replaceChildren();
  for (const t of x.ticks)
    node.append(svg("line", { x1: x.at(t), x2: x.at(t), y1: 22, y2: h - 40, class: "axis" }), svg("text", { x: x.at(t), y: h - 24, "text-anchor": "middle", class: "soft" }, say(section.x, t)));
  for (const t of y.ticks)
    node.append(svg("line", { x1: left, x2: w, y1: y.at(t), y2: y.at(t), class: "axis" }), svg("text", { x: left - 6, y: y.at(t) + 4, "text-anchor": "end", class: "soft" }, say(section.y, t)));
  node.append(svg("text", { x: w - 4, y: h - 6, "text-anchor": "end" }, section.x.title), svg("text", { x: 4, y: 12 }, section.y.title));
  points.forEach((series, i) => {
    node.append(svg("polyline", { points: series.map(p => x.at(p[0]).toFixed(1) + "," + y.at(p[1]).toFixed(1)).join(" "), fill: "none", stroke: CURVE_COLORS[i % CURVE_COLORS.length], "stroke-width": 1.5 }));
    for (const p of series) {
      const point = svg("circle", { cx: x.at(p[0]).toFixed(1), cy: y.at(p[1]).toFixed(1), r: 5, fill: CURVE_COLORS[i % CURVE_COLORS.length] });
      point.addEventListener("click", () => detail.replaceChildren(el("p", {}, [section.x.title + " " + say(section.x, p[0]), section.y.title + " " + say(section.y, p[1]), p[2]].join(" · "))));
      node.append(point);
    }
  });
}

function drawBars(section, node, detail, width) {
  const points = section.series[0].points, rows = points.length / 3, w = width || node.clientWidth || 800, narrow = w < 560;
  const each = narrow ? 40 : 26, left = narrow ? 0 : 230, top = narrow ? 16 : 0; /* names stand above their bars */
  const values = points.filter((p, i) => i % 3 === 1), low = Math.min(0, ...values), high = Math.max(0, ...values), room = w - left - 140;
  const x = v => left + 70 + (v - low) / (high - low || 1) * room;
  node.setAttribute("viewBox", "0 0 " + w + " " + (rows * each + 24));
  node.setAttribute("height", rows * each + 24);
  node.replaceChildren(svg("text", { x: w - 4, y: 14, "text-anchor": "end", class: "soft" }, section.y.title));
  for (let i = 0; i < rows; i++) {
    const value = points[3 * i + 1], y = 24 + i * each, text = CURVE_UNITS[section.y.unit](value);
    node.append(svg("text", narrow ? { x: 0, y: y + 12 } : { x: left - 6, y: y + 16, "text-anchor": "end" }, points[3 * i]));
    node.append(svg("rect", { x: Math.min(x(0), x(value)), y: y + top + 4, width: Math.max(Math.abs(x(value) - x(0)), 1), height: each - top - 8, fill: value < 0 ? "#2e8b64" : "#d9730d" }));
    node.append(svg("text", value < 0 ? { x: x(value) - 5, y: y + top + 16, "text-anchor": "end", class: "soft" } : { x: x(value) + 5, y: y + top + 16, class: "soft" }, text));
  }
}

/* ---- the page ---- */

const KINDS = { text: showText, command: showCommand, table: showTable, timeline: (section, root) => new Timeline(section, root), memory: showMemory, points: showPoints, curve: showCurve };

function showReport(data) {
  const root = document.getElementById("report"), nav = el("nav", { "aria-label": "sections" });
  root.append(el("h1", {}, data.title), el("p", { class: "soft" }, data.subtitle), nav);
  data.sections.forEach((section, i) => {
    const small = section.kind === "table" && section.left.length < 4;
    const node = el("section", { id: "section-" + i, class: small ? "small" : "wide" }, el("h2", {}, section.heading));
    nav.append(el("a", { href: "#section-" + i }, section.heading));
    root.append(node);
    KINDS[section.kind](section, node);
  });
}

showReport(JSON.parse(document.getElementById("data").textContent));
