// Draws the page's Vega-Lite charts, and draws them again when the page turns dark or light.
//
// Each chart is JSON in a script element. Its `usermeta.dark` says which colors become which on a dark page; the theme
// in the library's charts.py puts it there.
(() => {
  const isDark = () => document.documentElement.dataset.theme === "dark";

  function recolored(value, colors) {
    if (typeof value === "string") return colors[value] ?? value;
    if (Array.isArray(value)) return value.map((item) => recolored(item, colors));
    if (value === null || typeof value !== "object") return value;
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, recolored(item, colors)]));
  }

  // A chart of one view fits itself to a narrower column; one of several views is scrolled sideways in its box.
  function fitted(spec, box) {
    const single = "mark" in spec || ("layer" in spec && !("facet" in spec));
    const width = typeof spec.width === "number" ? spec.width : spec.config?.view?.continuousWidth;
    if (!single || !width || typeof spec.width === "object" || box.clientWidth >= width + 120) return spec;
    return { ...spec, width: "container", autosize: { type: "fit-x", contains: "padding" } };
  }

  async function draw(box, spec) {
    const dark = isDark();
    const shown = fitted(dark ? recolored(spec, spec.usermeta?.dark ?? {}) : spec, box);
    const target = box.querySelector(".chart-target");
    const state = box.view?.getState?.({ signals: (name) => bound(spec).has(name), data: () => false });
    box.view?.finalize();
    const options = { actions: false, renderer: "svg", tooltip: { theme: dark ? "dark" : "light" }, ...spec.usermeta?.embedOptions };
    box.view = (await vegaEmbed(target, shown, { mode: "vega-lite", ...options })).view;
    for (const [name, value] of Object.entries(state?.signals ?? {})) box.view.signal(name, value);
    if (state) await box.view.runAsync();
  }

  // Names of the parameters that the reader sets with a slider or a menu: their values outlive a new drawing.
  function bound(spec) {
    const own = (spec.params ?? []).filter((param) => param.bind && typeof param.bind === "object").map((param) => param.name);
    const below = ["layer", "hconcat", "vconcat", "concat"].flatMap((key) => spec[key] ?? []);
    return new Set([...own, ...below.flatMap((part) => [...bound(part)])]);
  }

  // Drawing the same chart twice at a time would mix the two, so one waits for the other.
  function drawAll() {
    for (const box of document.querySelectorAll(".chart")) {
      const spec = JSON.parse(box.querySelector("script").textContent);
      box.drawing = (box.drawing ?? Promise.resolve()).then(() => draw(box, spec)).catch((error) => console.error(error));
    }
  }

  function start() {
    drawAll();
    let theme = document.documentElement.dataset.theme;
    new MutationObserver(() => {
      if (theme === document.documentElement.dataset.theme) return;
      theme = document.documentElement.dataset.theme;
      drawAll();
    }).observe(document.documentElement, { attributeFilter: ["data-theme"] });
  }

  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
