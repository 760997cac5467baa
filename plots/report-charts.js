/* Memory over the step, points of predicted over measured, and the curves and bars of answers. */

/* ---- memory ---- */

function showMemory(section, root) {
  const select = el("select", { "aria-label": "stage" },
    ...section.rows.map((row, i) => el("option", { value: i }, row.name + ": peak " + bytes(row.peak_bytes))));
  const over = svg("svg", { role: "img", "aria-label": "memory over the step" });
  const peaks = svg("svg", { role: "img", "aria-label": "peak of each stage" });
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
  /* Where lines are close, both names stand above the upper one. */
  if (limits.length > 1 && y(limits[1][0]) - y(limits[0][0]) < 16) says.splice(0, 2, says.join(", "));
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

function memoryRooms(row) {
  return [row.capacity_bytes, row.usable_bytes];
}

function memoryOver(section, index, node, width) {
  const row = section.rows[index], limits = memoryLimits(row);
  const most = 1.06 * Math.max(row.peak_bytes, ...limits.map(limit => limit[0]));
  const { w, y } = memoryFrame(node, 260, most, limits, width);
  const x = time => LABEL_WIDTH + time / section.end_s * (w - LABEL_WIDTH);
  const activations = section.parts.findIndex(part => part.name === "activations");
  const buffers = section.parts.findIndex(part => part.name === "buffers");
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
    node.prepend(svg("path", { d: d + "V" + y(0).toFixed(1) + "z", fill: section.parts[part].color }));
  }
  const back = { x: LABEL_WIDTH, y: 0, width: w - LABEL_WIDTH, height: y(0) };
  node.prepend(svg("rect", { ...back, class: "idle", opacity: 0.5 }));
  const step = niceStep(section.end_s, Math.max((w - LABEL_WIDTH) / 110, 2)), unit = timeUnit(section.end_s);
  for (let at = 0; at <= section.end_s * 1.000001; at += step)
    node.append(svg("text", { x: x(at), y: y(0) + 16, "text-anchor": anchorAt(x(at), LABEL_WIDTH, w), class: "soft" },
      +(at / unit[0]).toPrecision(4) + " " + unit[1]));
}

function memoryPeaks(section, node, width) {
  const first = section.rows[section.fullest], limits = memoryLimits(first);
  const own = limits.length > 0 && section.rows.some(row => row.capacity_bytes !== first.capacity_bytes);
  const rooms = (own ? section.rows : [first]).flatMap(row => limits.map((limit, i) => memoryRooms(row)[i]));
  const most = 1.06 * Math.max(...section.rows.map(row => row.peak_bytes), ...rooms);
  const { w, y } = memoryFrame(node, 180, most, own ? [] : limits, width), each = (w - LABEL_WIDTH) / section.rows.length;
  section.rows.forEach((row, i) => {
    let sum = 0;
    row.parts.forEach((value, part) => {
      node.prepend(svg("rect", { x: LABEL_WIDTH + i * each + 1, width: Math.max(each - 2, 1), y: y(sum + value),
        height: y(sum) - y(sum + value), fill: section.parts[part].color }));
      sum += value;
    });
    if (own) /* stages on devices of several sizes: each with its own limits */
      memoryRooms(row).slice(0, limits.length).forEach(room => node.append(svg("line", { x1: LABEL_WIDTH + i * each,
        x2: LABEL_WIDTH + (i + 1) * each, y1: y(room), y2: y(room), class: "limit" })));
    if (each > 22 || i % Math.ceil(30 / each) === 0)
      node.append(svg("text", { x: LABEL_WIDTH + (i + 0.5) * each, y: 176, "text-anchor": "middle", class: "soft" },
        row.name.replace("stage ", "")));
  });
}

/* ---- predicted over measured ---- */

const SERIES_HUES = 12;

/* Rows of points: above the line of what was measured, predictions are too slow. */
function showPoints(section, root) {
  const node = svg("svg", { role: "img", "aria-label": "predicted over measured seconds" });
  const shown = new Set(section.series.map(s => s.name));
  const detail = el("div", { class: "detail", "aria-live": "polite" },
    el("p", { class: "soft help" }, "A click on a point names its run; a click on a source hides or shows it."));
  const draw = width => drawPoints(section, node, shown, detail, width);
  const legend = el("div", { class: "tools keys" }, ...section.series.map((series, i) => {
    const square = el("i");
    const button = el("button", { type: "button", "aria-pressed": "true", class: "key" }, square, series.name);
    square.style.background = hue(i);
    button.addEventListener("click", () => {
      if (!shown.delete(series.name)) shown.add(series.name);
      button.setAttribute("aria-pressed", String(shown.has(series.name)));
      draw();
    });
    return button;
  }));
  root.append(el("p", {}, held(section.says)), node, detail, legend);
  drawAtWidth(node, draw);
}

function hue(i) {
  return "hsl(" + Math.round(360 * (i % SERIES_HUES) / SERIES_HUES) + " 65% " + (i < SERIES_HUES ? 42 : 62) + "%)";
}

function drawPoints(section, node, shown, detail, width) {
  const w = width || node.clientWidth || 800, h = Math.min(w, 560);
  const values = section.series.flatMap(s => s.points.filter((x, i) => i % 3));
  const low = Math.log10(Math.min(...values)) - 0.1, high = Math.log10(Math.max(...values)) + 0.1;
  const x = v => LABEL_WIDTH + (Math.log10(v) - low) / (high - low) * (w - LABEL_WIDTH - 8);
  const y = v => h - 34 - (Math.log10(v) - low) / (high - low) * (h - 44);
  node.setAttribute("viewBox", "0 0 " + w + " " + h);
  node.setAttribute("height", h);
  node.replaceChildren();
  for (let power = Math.ceil(low); power <= high; power++) {
    const at = Math.pow(10, power);
    node.append(svg("line", { x1: x(at), x2: x(at), y1: 8, y2: h - 34, class: "axis" }),
      svg("line", { x1: LABEL_WIDTH, x2: w, y1: y(at), y2: y(at), class: "axis" }));
    const anchor = anchorAt(x(at), LABEL_WIDTH, w);
    node.append(svg("text", { x: x(at), y: h - 18, "text-anchor": anchor, class: "soft" }, seconds(at)),
      svg("text", { x: LABEL_WIDTH - 6, y: y(at) + 4, "text-anchor": "end", class: "soft" }, seconds(at)));
  }
  const ends = [Math.pow(10, low), Math.pow(10, high)];
  node.append(svg("line", { x1: x(ends[0]), x2: x(ends[1]), y1: y(ends[0]), y2: y(ends[1]), class: "limit" }));
  node.append(svg("text", { x: w - 8, y: h - 2, "text-anchor": "end" }, "measured"),
    svg("text", { x: LABEL_WIDTH + 6, y: 18 }, "predicted"));
  section.series.forEach((series, s) => {
    for (let i = 0; shown.has(series.name) && i < series.points.length; i += 3) {
      const [name, measured, predicted] = series.points.slice(i, i + 3);
      const at = { cx: x(measured).toFixed(1), cy: y(predicted).toFixed(1) };
      const says = [series.name + ": " + name, "measured " + seconds(measured), "predicted " + seconds(predicted),
        (100 * (predicted / measured - 1)).toFixed(1) + " %"].join(" · ");
      const point = svg("circle", { ...at, r: 3.5, fill: hue(s), opacity: 0.75 });
      point.addEventListener("click", () => detail.replaceChildren(el("p", {}, says)));
      node.append(point);
    }
  });
}

/* ---- what an answer draws ---- */

const CHANGE = { signDisplay: "exceptZero", minimumFractionDigits: 1, maximumFractionDigits: 1 };
const CURVE_UNITS = { seconds, bytes, real: scaled, count: v => String(v), share: v => (100 * v).toFixed(0) + " %",
  change: v => (+(100 * v).toFixed(1) || 0).toLocaleString("en", CHANGE) + " %" };
const CURVE_COLORS = ["#2b6cb0", "#d9730d", "#2e8b64", "#6b46c1"];

function scaled(value) {
  const prefixes = [[1e12, " T"], [1e9, " G"], [1e6, " M"], [1e4, " k"], [0, ""]];
  const [size, name] = prefixes.find(([least]) => Math.abs(value) >= least);
  return +(value / (name === " k" ? 1e3 : size || 1)).toPrecision(4) + name;
}

/* Names have bars beside them, numbers are places on two axes; a line joins the points of a series. */
function showCurve(section, root) {
  const node = svg("svg", { role: "img", "aria-label": section.y.title + " over " + section.x.title });
  const detail = el("div", { class: "detail", "aria-live": "polite" },
    el("p", { class: "soft help" }, "A click on a point names its plan."));
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
  const low = powers ? Math.log2(least) : least, high = powers ? Math.log2(most) : most;
  const span = high - low || Math.abs(high) || 1;
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
  const points = section.series.map(s =>
    s.points.filter((p, i) => i % 3 === 0).map((p, i) => s.points.slice(3 * i, 3 * i + 3)));
  const x = curveAxis(points.flat().map(p => p[0]), left, w - 12, section.x.unit === "count");
  const y = curveAxis(points.flat().map(p => p[1]), h - 40, 22);
  const say = (axis, v) => CURVE_UNITS[axis.unit](v);
  node.setAttribute("viewBox", "0 0 " + w + " " + h);
  node.setAttribute("height", h);
  node.replaceChildren();
  for (const t of x.ticks)
    node.append(svg("line", { x1: x.at(t), x2: x.at(t), y1: 22, y2: h - 40, class: "axis" }),
      svg("text", { x: x.at(t), y: h - 24, "text-anchor": "middle", class: "soft" }, say(section.x, t)));
  for (const t of y.ticks)
    node.append(svg("line", { x1: left, x2: w, y1: y.at(t), y2: y.at(t), class: "axis" }),
      svg("text", { x: left - 6, y: y.at(t) + 4, "text-anchor": "end", class: "soft" }, say(section.y, t)));
  node.append(svg("text", { x: w - 4, y: h - 6, "text-anchor": "end" }, section.x.title),
    svg("text", { x: 4, y: 12 }, section.y.title));
  points.forEach((series, i) => {
    const color = CURVE_COLORS[i % CURVE_COLORS.length];
    const line = series.map(p => x.at(p[0]).toFixed(1) + "," + y.at(p[1]).toFixed(1)).join(" ");
    node.append(svg("polyline", { points: line, fill: "none", stroke: color, "stroke-width": 1.5 }));
    for (const p of series) {
      const point = svg("circle", { cx: x.at(p[0]).toFixed(1), cy: y.at(p[1]).toFixed(1), r: 5, fill: color });
      const says = [section.x.title + " " + say(section.x, p[0]), section.y.title + " " + say(section.y, p[1]), p[2]];
      point.addEventListener("click", () => detail.replaceChildren(el("p", {}, says.join(" · "))));
      node.append(point);
    }
  });
}

function drawBars(section, node, detail, width) {
  const points = section.series[0].points, rows = points.length / 3;
  const w = width || node.clientWidth || 800, narrow = w < 560;
  const each = narrow ? 40 : 26, left = narrow ? 0 : 230, top = narrow ? 16 : 0; /* names stand above their bars */
  const values = points.filter((p, i) => i % 3 === 1), low = Math.min(0, ...values), high = Math.max(0, ...values);
  const room = w - left - 140;
  const x = v => left + 70 + (v - low) / (high - low || 1) * room;
  node.setAttribute("viewBox", "0 0 " + w + " " + (rows * each + 24));
  node.setAttribute("height", rows * each + 24);
  node.replaceChildren(svg("text", { x: w - 4, y: 14, "text-anchor": "end", class: "soft" }, section.y.title));
  for (let i = 0; i < rows; i++) {
    const value = points[3 * i + 1], y = 24 + i * each, text = CURVE_UNITS[section.y.unit](value);
    const name = narrow ? { x: 0, y: y + 12 } : { x: left - 6, y: y + 16, "text-anchor": "end" };
    const from = Math.min(x(0), x(value)), length = Math.max(Math.abs(x(value) - x(0)), 1), beside = value < 0 ? -5 : 5;
    node.append(svg("text", name, points[3 * i]));
    node.append(svg("rect", { x: from, y: y + top + 4, width: length, height: each - top - 8,
      fill: value < 0 ? "#2e8b64" : "#d9730d" }));
    node.append(svg("text", { x: x(value) + beside, y: y + top + 16, "text-anchor": value < 0 ? "end" : "start",
      class: "soft" }, text));
  }
}
