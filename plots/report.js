/* Shows the sections of a report: each kind has a function that fills its element. */

const KINDS = { text: showText, command: showCommand, table: showTable, memory: showMemory, points: showPoints,
  timeline: (section, root) => new Timeline(section, root) };

function showReport(data) {
  const root = document.getElementById("report"), nav = el("nav", { "aria-label": "sections" });
  root.append(el("h1", {}, data.title), el("p", { class: "soft" }, data.subtitle), nav);
  data.sections.forEach((section, i) => {
    const small = section.kind === "table" && section.left.length < 4;
    const node = el("section", { id: "section-" + i, class: small ? "small" : "wide" }, el("h2", {}, section.heading));
    if (data.sections.length > 1) nav.append(el("a", { href: "#section-" + i }, section.heading));
    root.append(node);
    KINDS[section.kind](section, node);
  });
}

showReport(JSON.parse(document.getElementById("data").textContent));
