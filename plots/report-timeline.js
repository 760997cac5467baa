/* A step as rows of boxes that zoom, down to the operators of a pass. */

const OP_CLASSES = [
  { name: "products and attention", color: "#5b6b85" },
  { name: "bound by memory", color: "#a8b2c1" },
  { name: "tensor-parallel communication", color: "#c53030" },
  { name: "context-parallel communication", color: "#b7791f" },
  { name: "expert-parallel communication", color: "#6b46c1" },
  { name: "other communication", color: "#2c7a7b" },
];
const ROW_GAP = 6, AXIS_HEIGHT = 24, BIN = 3, INSIDE_WIDTH = 90;

/* Absolute times of the spans of a lane. */
function unpack(lane) {
  const n = lane.length / 4;
  const spans = { n, from: new Float64Array(n), to: new Float64Array(n), bar: new Uint32Array(n),
    micro: new Uint32Array(n) };
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
    this.unit = section.unitless ? [1, ""] : undefined;
    this.build(root);
  }

  say(time) { return seconds(time, this.unit); }

  build(root) {
    const buttons = [["Whole step", () => this.show(0, this.whole)],
      ["+", () => this.zoom(0.5)], ["−", () => this.zoom(2)],
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
    if (s.rows.length < s.stages)
      parts.push(s.rows.length + " of " + s.stages + " stages are shown, the fullest among them");
    if (s.end_s < s.step_s) parts.push("the first " + this.say(s.end_s) + " of " + this.say(s.step_s) + " are shown");
    const shown = parts.join("; ");
    const help = "Wheel, pinch or + and − zoom, drag or arrows move, a click says what a bar is; " +
      "wide passes show their operators, communication below computation.";
    return el("p", { class: "soft" }, shown ? shown[0].toUpperCase() + shown.slice(1) + ". " : "",
      el("span", { class: "help" }, help));
  }

  legend() {
    const entries = new Map();
    for (const bar of this.section.bars)
      if (!entries.has(bar.name) || bar.chunk === 0) entries.set(bar.name, bar.color);
    const used = new Set(this.section.sets.flatMap(set => set.filter((x, i) => i % 3 === 1)));
    OP_CLASSES.forEach((c, i) => { if (used.has(i)) entries.set("in a pass: " + c.name, c.color); });
    const chunks = Math.max(...this.section.bars.map(bar => bar.chunk || 0));
    return el("div", { class: "legend" }, chunks > 0 ? "Chunks 0 to " + chunks + " from dark to light." : "",
      ...[...entries].map(([name, color]) => {
      const square = el("i");
      square.style.background = color;
      return el("span", {}, square, name);
    }));
  }

  listen() {
    const at = event => this.timeAt(event.clientX);
    const fingers = new Map();
    this.svg.addEventListener("wheel", event => {
      if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY))
        this.move((event.deltaX || event.deltaY) / 800);
      else if (event.ctrlKey || event.altKey || document.activeElement === this.svg)
        this.zoom(event.deltaY < 0 ? 0.8 : 1.25, at(event));
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
        this.zoom(Math.abs(before[0] - before[1]) / Math.max(Math.abs(now[0] - now[1]), 1),
          this.timeAt((now[0] + now[1]) / 2));
      else this.move(-shift / this.width());
    });
    this.svg.addEventListener("pointerup", event => {
      if (!this.moved && fingers.size === 1) this.choose(event);
      fingers.delete(event.pointerId);
    });
    for (const name of ["pointercancel", "pointerleave"])
      this.svg.addEventListener(name, event => fingers.delete(event.pointerId));
    this.svg.addEventListener("keydown", event => {
      const keys = { "+": () => this.zoom(0.5), "=": () => this.zoom(0.5), "-": () => this.zoom(2),
        "0": () => this.show(0, this.whole),
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
    const place = this.lanes.indexOf(lane), h = this.rowHeight(),
      others = this.lanes.length - (this.lanes.includes(0) ? 1 : 0);
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
    const step = niceStep(to - from, Math.max(this.width() / 110, 2)), unit = this.unit || timeUnit(to);
    for (let at = Math.ceil(from / step) * step; at <= to + step * 1e-6; at += step) {
      const x = this.x(at / tick);
      this.svg.append(svg("line", { x1: x, x2: x, y1: 0, y2: y + 4, class: "axis" }));
      const digits = Math.max(0, -Math.floor(Math.log10(step / unit[0]) + 1e-9));
      const anchor = anchorAt(x, LABEL_WIDTH, this.width() + LABEL_WIDTH);
      this.svg.append(svg("text", { x, y: y + 17, "text-anchor": anchor, class: "soft" },
        ((at / unit[0]).toFixed(digits) + " " + unit[1]).trim()));
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
      const x = Math.max(this.x(spans.from[i]), LABEL_WIDTH),
        to = Math.min(this.x(spans.to[i]), LABEL_WIDTH + this.width());
      const bar = this.section.bars[spans.bar[i]];
      if (to - x < BIN) {
        this.share(bins, spans.bar[i], x, to);
        continue;
      }
      const w = to - x - (to - x > 4 ? 0.6 : 0);
      add(bar.color, "M" + x.toFixed(1) + " " + top + "h" + w.toFixed(1) + "v" + height + "h" + (-w).toFixed(1) + "z");
      if (labels && w > 5 + 7 * String(spans.micro[i]).length && bar.chunk !== undefined)
        texts.push([(x + to) / 2, spans.micro[i], bar.ink, w]);
      if (labels && bar.inside && this.x(spans.to[i]) - this.x(spans.from[i]) > INSIDE_WIDTH)
        inside.push([spans.from[i], spans.to[i], bar]);
    }
    this.addShares(bins, top, height, add);
    for (const [fill, d] of paths) this.svg.append(svg("path", { d, fill }));
    for (const [from, to, bar] of inside) this.drawInside(from, to, bar, top, height);
    for (const [x, micro, ink] of texts)
      this.svg.append(svg("text",
        { x, y: top + Math.min(height, 26) / 2 + 4, "text-anchor": "middle", style: "fill:" + ink }, micro));
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
        add(this.section.bars[bar].color, "M" + bin * BIN + " " + bottom.toFixed(1) + "h" + BIN + "v" + h.toFixed(1) +
          "h-" + BIN + "z");
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
            paths.set(set[j + 1], (paths.get(set[j + 1]) || "") + "M" + x.toFixed(2) + " " +
              (y + (below ? h : 0)).toFixed(1) + "h" + Math.max(end - x, 0.3).toFixed(2) + "v" + h.toFixed(1) +
              "h-" + Math.max(end - x, 0.3).toFixed(2) + "z");
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
    const box = this.svg.getBoundingClientRect(),
      y = (event.clientY - box.top) * this.svg.viewBox.baseVal.height / box.height;
    const index = Math.floor(y / (this.rowHeight() + ROW_GAP)), row = this.rows[index],
      time = this.timeAt(event.clientX);
    if (!row) return;
    const inRow = y - index * (this.rowHeight() + ROW_GAP);
    const lane = this.lanes.find(l => inRow >= this.strip(l)[0] && inRow <= this.strip(l)[0] + this.strip(l)[1] + 1);
    if (lane === undefined) return;
    const spans = row.lanes[lane], i = firstAfter(spans, time);
    if (i < spans.n && spans.from[i] <= time) this.describe(row, lane, spans, i);
    else {
      const idle = row.name + ", " + this.section.lane_names[lane] + ": idle";
      this.chosen = null;
      this.detail.replaceChildren(el("p", { class: "soft" }, idle));
    }
  }

  describe(row, lane, spans, i) {
    const bar = this.section.bars[spans.bar[i]], tick = this.section.tick_s;
    const from = spans.from[i] * tick, to = spans.to[i] * tick, last = bar.first_layer + bar.layers - 1;
    const of = bar.chunk !== undefined ? " of micro-batch " + spans.micro[i] + ", chunk " + bar.chunk : "";
    const words = [row.name, bar.name + of];
    if (bar.layers > 0) words.push(bar.layers > 1 ? "layers " + bar.first_layer + " to " + last : "layer " + last);
    words.push(this.say(to - from) + ", from " + this.say(from) + " to " + this.say(to));
    if (bar.bytes) words.push(bytes(bar.bytes) + (bar.ranks > 1 ? " over " + bar.ranks + " ranks" : ""));
    this.chosen = { from: spans.from[i], to: spans.to[i] };
    this.detail.replaceChildren(el("p", {}, held(words.join(" · "))), ...this.operators(bar));
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
    showTable({ heading: "operators of the pass", left: [true, true, false, false, false],
      says: "Operators of the pass, each on its own; some overlap.",
      rows: [["operator", "kind", "times", "time", "share"], ...rows.map(([key, [time, count]]) => {
        const [name, kind] = key.split("\n");
        return [name, OP_CLASSES[kind].name, String(count), seconds(time), (100 * time / total).toFixed(1) + " %"];
      })] }, node);
    return [node];
  }
}
