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
  const narrow = document.getElementById(id).closest(".panels, .columns, .graphs");
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

/** A chart as a picture: in the colours of the page, with its heading and, for several series, a legend. */
function download(button) {
  const css = getComputedStyle(root);
  const id = button.dataset.chart;
  const { data, layout: own } = figures[id];
  const names = new Set(data.filter((trace) => trace.showlegend !== false && trace.visible !== false).map((trace) => trace.name).filter(Boolean));
  const heading = { title: { text: button.dataset.title, x: 0.02, xanchor: "left", font: { color: "--ink", size: 15 } }, paper_bgcolor: "--card" };
  const legend = { showlegend: own.showlegend || names.size > 1, legend: { orientation: "h", y: -0.18, yanchor: "top" } };
  const whole = { ...layout(own), ...heading, ...legend, margin: { l: 64, r: 24, t: 56, b: 64 } };
  const name = `${document.title.split(" · ")[0]}-${id}`.replace(/[^\w.-]+/g, "-");
  const picture = { data: coloured(data, css), layout: coloured(whole, css) };
  return Plotly.downloadImage(picture, { format: "png", width: 900, height: 540, scale: 2, filename: name });
}
document.querySelectorAll(".png").forEach((button) => button.addEventListener("click", () => download(button)));

/** Explanations of terms: on hover, on keyboard focus, and (by the browser) on click or touch. */
document.querySelectorAll(".term").forEach((term) => {
  const tip = document.getElementById(term.getAttribute("popovertarget"));
  const open = () => { if (!tip.matches(":popover-open")) tip.showPopover(); };
  const close = () => { if (tip.matches(":popover-open")) tip.hidePopover(); };
  const place = () => {
    const at = term.getBoundingClientRect();
    tip.style.left = `${Math.max(12, Math.min(at.left, innerWidth - tip.offsetWidth - 12))}px`;
    tip.style.top = `${at.bottom + 6 + tip.offsetHeight > innerHeight ? at.top - tip.offsetHeight - 6 : at.bottom + 6}px`;
  };
  term.addEventListener("pointerenter", (event) => { if (event.pointerType === "mouse") { open(); place(); } });
  term.addEventListener("pointerleave", (event) => { if (event.pointerType === "mouse") close(); });
  term.addEventListener("focus", () => { if (term.matches(":focus-visible")) { open(); place(); } });
  term.addEventListener("blur", close);
  term.addEventListener("click", () => { if (tip.matches(":popover-open")) place(); else requestAnimationFrame(place); });
});

/** A table that is wider than its box says so. */
const boxes = new ResizeObserver((entries) => entries.forEach(({ target }) => {
  const box = target.closest(".scroll");
  box.classList.toggle("more", box.querySelector("table").offsetWidth > box.clientWidth + 1);
}));
document.querySelectorAll(".scroll").forEach((box) => { boxes.observe(box); boxes.observe(box.querySelector("table")); });

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
