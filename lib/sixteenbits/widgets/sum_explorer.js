// SumExplorer: a sum that grows term by term, in a chosen format and way of adding. sum_explorer.py lists the traits.

import { copyButton, h, setText, shareFragment, svg, watchWidth } from "./base.js";
import { chartFrame, chartParts } from "./sum_chart.js";
import { computed, fromFragment, makeBench, missing, moveLength, reading, setOf, settled, toFragment, VIEWS } from "./sum_state.js";
import { percentText, sayAloud, sayReading } from "./sum_words.js";

const NARROW = 480; // px; below, the targets are as large as a finger
const TRAITS = ["format", "data", "way", "length", "view"];

let count = 0; // ids have to differ between the explorers of a page

function render({ model, el }) {
  const tables = Object.fromEntries(["formats", "ways", "sets", "seed"].map((name) => [name, model.get(name)]));
  const bench = makeBench(tables);
  const store = sumStore(model, bench, (state) => view.draw(state));
  const act = (change) => {
    store.set(settled(bench, change(store.state)));
    fragment.write(toFragment(bench, store.state));
  };
  const view = sumView(bench, act);
  const start = store.state;
  const fragment = shareFragment(view.root, {
    show(text) {
      const read = fromFragment(bench, text);
      if (read) store.set(read);
      return read !== null;
    },
    restore: () => store.set(start),
  });
  const link = fragment.link && copyButton("Copy link", () => fragment.link(toFragment(bench, store.state)));
  if (link) view.root.append(h("div", { class: "sxb-links" }, link));
  el.append(view.root);
  view.draw(store.state);
  const unwatch = watchWidth(view.root, (width) => view.fit(width, store.state));
  return () => {
    unwatch();
    view.stop();
    fragment.stop();
    store.stop();
  };
}

// -- what is seen ------------------------------------------------------------------------------------------------------

/** Everything but the links: { root, draw(state), fit(width, state), stop() }. `act(change)` applies state → state. */
function sumView(bench, act) {
  const id = `sxs-${(count += 1)}-${Math.random().toString(36).slice(2, 8)}`;
  const choice = (name, label, rows) => {
    const options = rows.map((row) => h("option", { value: row.name, text: row.title ?? row.name }));
    const select = h("select", { id: `${id}-${name}`, onchange: () => act((s) => ({ ...s, [name]: select.value })) }, options);
    return { root: h("div", { class: "sxb-choice" }, h("label", { for: select.id, text: label }), select), select };
  };
  const format = choice("format", "Format", bench.formats);
  const data = choice("data", "Terms", bench.sets);
  const views = viewChoice(id, act);
  const chart = chartPart(bench, act);
  const slider = lengthSlider(id, bench, act);
  const ways = wayRows(id, bench, act);
  const sentence = h("p", { class: "sxs-sentence" });
  const status = h("p", { class: "sxb-offscreen", role: "status" });
  const root = h(
    "div",
    // JupyterLab keeps its one-letter commands away from what is marked so.
    { class: "sxb sxs", role: "group", "aria-label": "Sum explorer", "data-lm-suppress-shortcuts": "true" },
    h("div", { class: "sxs-top" }, format.root, data.root, views.root),
    chart.root, slider.root, sentence, ways.root, status,
  );
  let timer = 0;
  let size = null;
  const view = {
    root,
    draw(state) {
      format.select.value = state.format;
      data.select.value = state.data;
      reading(bench, state); // the chosen sums first, the others when there is time
      views.draw(state);
      if (size) chart.draw(state, ...size);
      slider.draw(state);
      ways.draw(state);
      setText(sentence, sayReading(bench, state));
      setText(status, sayAloud(bench, state));
      clearTimeout(timer);
      const next = missing(bench, state);
      if (next) timer = setTimeout(() => {
        computed(bench, state, next);
        view.draw(state);
      }, 0);
    },
    fit(width, state) {
      root.classList.toggle("sxb-narrow", width < NARROW);
      size = [chart.width(), width < NARROW ? 260 : 300];
      chart.draw(state, ...size);
    },
    stop: () => clearTimeout(timer),
  };
  return view;
}

const VIEW_NAMES = { error: "error", sum: "size of the sum" };

/** Error or sum, as two radio buttons that look like one switch. */
function viewChoice(id, act) {
  const inputs = VIEWS.map((name) => h("input", { type: "radio", name: `${id}-view`, id: `${id}-view-${name}`, value: name, onchange: () => act((s) => ({ ...s, view: name })) }));
  const root = h("fieldset", { class: "sxs-views" }, h("legend", { text: "Shown" }),
    h("div", {}, inputs.map((input) => h("label", { for: input.id }, input, h("span", { text: VIEW_NAMES[input.value] })))));
  return { root, draw: ({ view }) => inputs.forEach((input) => (input.checked = input.value === view)) };
}

/** The chart; a click or a drag chooses the number of terms. For screen readers and keys there is the slider below. */
function chartPart(bench, act) {
  const drawing = svg("svg", { class: "sxs-chart", role: "img" });
  const title = h("p", { class: "sxs-caption" });
  const root = h("div", { class: "sxs-stage" }, title, drawing);
  let frame = null;
  const choose = (event) => {
    const n = frame.n(event.clientX - drawing.getBoundingClientRect().left);
    act((s) => ({ ...s, length: n }));
  };
  drawing.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    drawing.setPointerCapture(event.pointerId);
    choose(event);
  });
  drawing.addEventListener("pointermove", (event) => drawing.hasPointerCapture(event.pointerId) && choose(event));
  return {
    root,
    width: () => Math.floor(root.clientWidth),
    draw(state, width, height) {
      frame = chartFrame(bench, state, width, height);
      setText(title, CAPTIONS[state.view]);
      for (const [name, value] of Object.entries({ width, height, viewBox: `0 0 ${width} ${height}` })) drawing.setAttribute(name, value);
      drawing.setAttribute("aria-label", `${CAPTIONS[state.view]}, against the number of terms. ${sayReading(bench, state)}`);
      drawing.replaceChildren(...chartParts(bench, state, width, height));
    },
  };
}

const CAPTIONS = { error: "Error, as a part of the sum of all sizes (base 2)", sum: "Size of the sum (base 2)" };

/** The number of terms as a slider over the lengths that are computed. */
function lengthSlider(id, bench, act) {
  const input = h("input", { type: "range", id: `${id}-length`, min: 0, step: 1, oninput: () => act((s) => moveLength(bench, s, Number(input.value) - place(s))) });
  const place = (state) => setOf(bench, state).lengths.indexOf(state.length);
  const shown = h("output", { for: input.id });
  return {
    root: h("div", { class: "sxs-length" }, h("label", { for: input.id, text: "Terms added" }), input, shown),
    draw(state) {
      input.max = setOf(bench, state).lengths.length - 1;
      input.value = place(state);
      input.setAttribute("aria-valuetext", `${state.length} terms`);
      setText(shown, String(state.length));
    },
  };
}

/** One row for each way of adding: its line, its name, its error at this length. */
function wayRows(id, bench, act) {
  const rows = bench.ways.map((way) => {
    const input = h("input", { type: "radio", name: `${id}-way`, id: `${id}-way-${way.name}`, value: way.name, onchange: () => act((s) => ({ ...s, way: way.name })) });
    const error = h("span", { class: "sxs-error" });
    const sample = svg("svg", { class: "sxs-sample", width: 40, height: 10, "aria-hidden": "true" },
      svg("line", { x1: 0, x2: 40, y1: 5, y2: 5, stroke: way.color, "stroke-dasharray": way.dash.join(" ") }));
    const root = h("label", { class: "sxs-row", for: input.id }, input, sample, h("span", { text: way.title }), error);
    return { way, input, error, root };
  });
  const root = h("fieldset", { class: "sxs-ways" }, h("legend", { text: "How it is added, and the error" }), rows.map((row) => row.root));
  return {
    root,
    draw(state) {
      for (const { way, input, error, root: row } of rows) {
        input.checked = way.name === state.way;
        row.classList.toggle("sxs-on", input.checked);
        const sums = computed(bench, state, way, false);
        setText(error, sums ? percentText(reading(bench, state, way).error) : "…");
      }
    },
  };
}

// -- the traits --------------------------------------------------------------------------------------------------------

/** The state, kept in the traits: { state, set(state), stop() }. `changed(state)` is called after every change. */
function sumStore(model, bench, changed) {
  let saving = false;
  const read = () => settled(bench, Object.fromEntries(TRAITS.map((name) => [name, model.get(name)])));
  const store = {
    state: read(),
    set(state) {
      store.state = state;
      saving = true; // what this side sets need not be followed
      for (const name of TRAITS) if (model.get(name) !== state[name]) model.set(name, state[name]);
      model.save_changes();
      saving = false;
      changed(state);
    },
    stop() {
      for (const name of TRAITS) model.off(`change:${name}`, follow);
    },
  };
  function follow() {
    if (saving) return;
    store.state = read();
    changed(store.state);
  }
  for (const name of TRAITS) model.on(`change:${name}`, follow);
  return store;
}

export default { render };
