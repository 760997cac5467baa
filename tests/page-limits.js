/* Prints, for each stage of a report, where its limits are drawn over the peaks of the stages, as shares of its device. Run behind
 * the page's own scripts, with the report as argument. */
class Node {
  constructor(name) { this.name = name; this.attributes = {}; this.nodes = []; }
  setAttribute(key, value) { this.attributes[key] = value; }
  append(...nodes) { this.nodes.push(...nodes); }
  prepend(...nodes) { this.nodes.unshift(...nodes); }
  replaceChildren(...nodes) { this.nodes = nodes; }
}

const document = { createElementNS: (space, name) => new Node(name) };
const page = require("fs").readFileSync(process.argv[1], "utf8");
const section = JSON.parse(/id="data">(.*)<\/script>/.exec(page)[1]).sections.find(s => s.kind === "memory");
const node = new Node("svg"), heights = [];
memoryPeaks(section, node, 64 + 100 * section.rows.length);
const bottom = 160, bar = i => node.nodes.filter(n => n.name === "rect" && n.attributes.x === 65 + 100 * i);
section.rows.forEach((row, i) => {
  const scale = row.peak_bytes / (bottom - Math.min(...bar(i).map(n => n.attributes.y)));
  const lines = node.nodes.filter(n => n.attributes.class === "limit" && n.attributes.x1 <= 65 + 100 * i &&
    n.attributes.x2 >= 163 + 100 * i);
  heights.push(lines.map(n => ((bottom - n.attributes.y1) * scale / row.capacity_bytes).toFixed(3)).join("+"));
});
console.log(heights.join(" "));
