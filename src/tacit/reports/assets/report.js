"use strict";
const figures = JSON.parse(document.getElementById("figures").textContent);
const root = document.documentElement;
const system = matchMedia("(prefers-color-scheme: dark)");
const PRINTED = { narrow: { width: 290, height: 210 }, wide: { width: 560 } }; // charts on paper, in CSS pixels
let printing = false;
if (typeof Plotly === "undefined") root.classList.remove("charts");
const config = { responsive: true, displayModeBar: false };

/** A copy of the figure in which names of CSS variables are replaced by their values in the current theme. */
function coloured(value, css) {
  if (typeof value === "string") return value.startsWith("--") ? css.getPropertyValue(value).trim() : value;
  if (Array.isArray(value)) return value.map((item) => coloured(item, css));
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, coloured(item, css)]));
}

function layout(own) {
  const line = { gridcolor: "--rule", linecolor: "--rule", zerolinecolor: "--rule", automargin: true, ticks: "outside", ticklen: 6, tickcolor: "rgba(0,0,0,0)" };
  const axis = (name) => ({ ...line, fixedrange: true, ...own[name] });
  return {
    ...own, autosize: true, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { color: "--muted", size: 12, family: "system-ui, sans-serif" },
    hoverlabel: { bgcolor: "--card", bordercolor: "--muted", font: { color: "--ink" } },
    xaxis: axis("xaxis"), yaxis: axis("yaxis"),
  };
}

function draw(id) {
  const css = getComputedStyle(root);
  const narrow = document.getElementById(id).closest(".panels, .columns");
  const size = printing ? (narrow ? PRINTED.narrow : PRINTED.wide) : {};
  return Plotly.react(id, coloured(figures[id].data, css), coloured({ ...layout(figures[id].layout), ...size }, css), config);
}

function show(theme) {
  root.dataset.theme = theme;
  if (root.classList.contains("charts")) Object.keys(figures).forEach(draw);
}

document.getElementById("theme").addEventListener("click", () => show(root.dataset.theme === "dark" ? "light" : "dark"));
system.addEventListener("change", () => show(system.matches ? "dark" : "light"));

document.getElementById("round")?.addEventListener("input", (event) => {
  const round = Number(event.target.value);
  document.getElementById("round-shown").value = round;
  figures.network.data.filter((trace) => trace.meta === "links").forEach((trace, t) => { trace.visible = t === round; });
  draw("network");
});

document.querySelectorAll(".legend button").forEach((button) => button.addEventListener("click", () => {
  const visible = button.getAttribute("aria-pressed") !== "true";
  button.setAttribute("aria-pressed", visible);
  for (const id of Object.keys(figures)) {
    figures[id].data.filter((trace) => trace.meta === Number(button.dataset.run)).forEach((trace) => { trace.visible = visible; });
    draw(id);
  }
}));

/** On paper: light colours, every section open, charts as wide as their column; afterwards everything as before. */
let beforePrinting = null;
addEventListener("beforeprint", () => {
  if (beforePrinting) return;
  const closed = [...document.querySelectorAll("details:not([open])")];
  beforePrinting = { theme: root.dataset.theme, closed };
  printing = true;
  closed.forEach((each) => { each.open = true; });
  show("light");
});
addEventListener("afterprint", () => {
  if (!beforePrinting) return;
  printing = false;
  beforePrinting.closed.forEach((each) => { each.open = false; });
  show(beforePrinting.theme);
  beforePrinting = null;
});

/** A chart in a closed section has no width: it is fitted when the section opens. */
document.querySelectorAll("details").forEach((each) => each.addEventListener("toggle", () => {
  if (!each.open || printing || !root.classList.contains("charts")) return;
  each.querySelectorAll(".chart").forEach((chart) => Plotly.Plots.resize(chart));
}));

/** A link to a folded section opens it. */
function openTarget() {
  const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  const folded = target && (target.querySelector(":scope > details") ?? target.closest("details"));
  if (!folded) return;
  folded.open = true;
  target.scrollIntoView();
}
addEventListener("hashchange", openTarget);

show(system.matches ? "dark" : "light");
openTarget();
