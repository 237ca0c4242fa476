// RoundingExplorer: a number on a line, and where each rounding mode and format sends it. rounding_explorer.py
// lists the traits.

import { copyButton, h, setText, shareFragment, svg, watchWidth } from "./base.js";
import { formatChoice, numberField } from "./controls.js";
import { describe } from "./numerics.js";
import { drawLine } from "./rounding_line.js";
import { drawPanel, modeRows, otherFormats, overflowPanel } from "./rounding_panels.js";
import {
  drag,
  flipSign,
  fromFragment,
  makeState,
  nudge,
  placeIn,
  PLACES,
  scaleBy,
  setFormat,
  settle,
  toFragment,
  toTie,
  typeNumber,
  visit,
  zoomBy,
} from "./rounding_state.js";
import { sayAloud, saySituation } from "./rounding_words.js";
import { specOf } from "./spec.js";

const NARROW = 480; // px; below, the targets are as large as a finger

let count = 0; // ids have to differ between the explorers of a page

function render({ model, el }) {
  const named = model.get("formats").map(describe);
  const store = traitStore(model, named, (state) => parts.draw(state));
  const act = (change) => {
    store.set(change(store.state));
    fragment.write(toFragment(store.state, named));
  };
  const parts = explorerParts(named, model.get("colors"), act);
  const start = store.state;
  const fragment = shareFragment(parts.root, {
    show(text) {
      const read = fromFragment(text, named, start);
      if (read) store.set(read);
      return read !== null;
    },
    restore: () => store.set(start),
  });
  const link = fragment.link && copyButton("Copy link", () => fragment.link(toFragment(store.state, named)));
  if (link) parts.root.append(h("div", { class: "sxb-links" }, link));
  el.append(parts.root);
  parts.draw(store.state);
  const unwatch = watchWidth(parts.root, (width) => parts.fit(width, store.state));
  return () => {
    unwatch();
    fragment.stop();
    store.stop();
  };
}

// -- what is seen ------------------------------------------------------------------------------------------------------

/** All but the links: { root, draw(state), fit(width, state) }. `act(change)` applies a function state → state. */
function explorerParts(named, colors, act) {
  const id = `sxr-${(count += 1)}-${Math.random().toString(36).slice(2, 8)}`;
  const attempt = (text) => {
    try {
      act((s) => typeNumber(s, text));
      return "";
    } catch (problem) {
      if (!(problem instanceof SyntaxError)) throw problem;
      return problem.message;
    }
  };
  const field = numberField(id, attempt);
  const choice = formatChoice({
    id: `${id}-format`,
    label: "Format",
    named,
    choose: (f) => act((s) => setFormat(s, f)),
  });
  const overflow = overflowPanel(id, act);
  const line = linePart(id, act);
  const below = [modeRows(id, act), drawPanel(act), overflow, otherFormats(named, colors, act)];
  const status = h("p", { class: "sxb-offscreen", role: "status" });
  const root = h(
    "div",
    // JupyterLab keeps its one-letter commands away from what is marked so.
    { class: "sxb sxr", role: "group", "aria-label": "Rounding explorer", "data-lm-suppress-shortcuts": "true" },
    h("div", { class: "sxb-top" }, field.root, field.below, choice.root, overflow.choice),
    choice.editor,
    line.root,
    below.map((part) => part.root),
    status,
  );
  let width = 0;
  const parts = {
    root,
    draw(state) {
      choice.show(state.format);
      field.show(state.number);
      setText(status, sayAloud(state));
      line.say(state);
      if (!width) return;
      line.draw(state, width);
      for (const part of below) part.draw(state, width);
    },
    fit(outer, state) {
      root.classList.toggle("sxb-narrow", outer < NARROW);
      width = Math.floor(line.width());
      parts.draw(state);
    },
  };
  return parts;
}

/** The line with its tools: { root, draw(state, width), say(state), width() }. */
function linePart(id, act) {
  const drawing = svg("svg", { class: "sxb-line", "aria-hidden": "true" });
  const slider = h(
    "div",
    {
      class: "sxb-slider",
      role: "slider",
      tabindex: "0",
      "aria-label": "The number to round",
      "aria-valuemin": 0,
      "aria-valuemax": 1000,
    },
    drawing,
  );
  const sentence = h("p", { class: "sxb-sentence" });
  const hint = h("p", {
    class: "sxb-hint",
    text:
      "A band: numbers that go to one value. A triangle: a middle, where ties lie. Drag, or use the keys: arrows, an " +
      "eighth of a gap, with Shift a whole one; Page keys, a binade; Home and End, the next tie; + and −, zoom.",
  });
  makeDraggable(slider, act);
  slider.addEventListener("keydown", (event) => {
    const change = KEYS[(event.shiftKey ? "Shift+" : "") + event.key];
    if (!change || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    event.stopPropagation();
    act(change);
  });
  const tool = ([name, text, change]) =>
    h("button", { type: "button", class: "sxb-tool", "aria-label": name, text, onclick: () => act(change) });
  const visits = PLACES.map((place) =>
    h("button", { type: "button", class: "sxb-quiet", text: place, onclick: () => act((s) => visit(s, place)) }),
  );
  return {
    root: h(
      "div",
      { class: "sxb-stage" },
      slider,
      sentence,
      h("div", { class: "sxb-tools" }, TOOLS.map(tool)),
      h(
        "div",
        { class: "sxb-visits", role: "group", "aria-label": "Go to, and zoom" },
        h("span", { "aria-hidden": "true", text: "Go to" }),
        visits,
        ZOOMS.map(tool),
      ),
      hint,
    ),
    width: () => slider.clientWidth,
    say(state) {
      setText(sentence, saySituation(state));
      slider.setAttribute("aria-valuetext", sayAloud(state));
      const part = state.x.kind === "finite" ? placeIn(state, state.x) : 0;
      slider.setAttribute("aria-valuenow", Math.round(1000 * Math.max(0, Math.min(1, part))));
    },
    draw(state, width) {
      slider.hidden = state.x.kind !== "finite";
      if (slider.hidden) return;
      const { parts, height } = drawLine(state, width, id);
      for (const [name, value] of Object.entries({ width, height, viewBox: `0 0 ${width} ${height}` }))
        drawing.setAttribute(name, value);
      drawing.replaceChildren(...parts);
    },
  };
}

const KEYS = {
  ArrowRight: (s) => nudge(s, 1),
  ArrowUp: (s) => nudge(s, 1),
  ArrowLeft: (s) => nudge(s, -1),
  ArrowDown: (s) => nudge(s, -1),
  "Shift+ArrowRight": (s) => nudge(s, 8),
  "Shift+ArrowUp": (s) => nudge(s, 8),
  "Shift+ArrowLeft": (s) => nudge(s, -8),
  "Shift+ArrowDown": (s) => nudge(s, -8),
  PageUp: (s) => scaleBy(s, 1),
  PageDown: (s) => scaleBy(s, -1),
  Home: (s) => toTie(s, -1),
  End: (s) => toTie(s, 1),
  "+": (s) => zoomBy(s, -1),
  "Shift++": (s) => zoomBy(s, -1),
  "-": (s) => zoomBy(s, 1),
};

// The spoken name contains the visible one, for those who speak to their computer.
const TOOLS = [
  ["tie below: the next middle downward", "tie below", (s) => toTie(s, -1)],
  ["−⅛ ulp: an eighth of a gap down", "−⅛ ulp", (s) => nudge(s, -1)],
  ["+⅛ ulp: an eighth of a gap up", "+⅛ ulp", (s) => nudge(s, 1)],
  ["tie above: the next middle upward", "tie above", (s) => toTie(s, 1)],
  ["halve", "halve", (s) => scaleBy(s, -1)],
  ["double", "double", (s) => scaleBy(s, 1)],
  ["± changes the sign", "±", flipSign],
];

const ZOOMS = [
  ["zoom in", "zoom in", (s) => zoomBy(s, -1)],
  ["zoom out", "zoom out", (s) => zoomBy(s, 1)],
];

/** Pointer and touch: x follows the finger; a page is still scrolled up and down over it. */
function makeDraggable(slider, act) {
  let dragging = false;
  const move = (event) => {
    const box = slider.getBoundingClientRect();
    act((s) => drag(s, (event.clientX - box.left) / box.width, box.width));
  };
  slider.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    dragging = true;
    slider.setPointerCapture(event.pointerId);
    slider.focus({ preventScroll: true });
    move(event);
  });
  slider.addEventListener("pointermove", (event) => dragging && move(event));
  for (const end of ["pointerup", "pointercancel"]) {
    slider.addEventListener(end, () => {
      if (dragging) act(settle);
      dragging = false;
    });
  }
}

// -- the traits --------------------------------------------------------------------------------------------------------

const FOLLOWED = ["format", "others", "number", "rounding", "overflow", "zoom", "seed"];

/** The state, kept in the traits: { state, set(state), stop() }. `changed(state)` is called after every change. */
function traitStore(model, named, changed) {
  let saving = false;
  const read = () => {
    const traits = Object.fromEntries(FOLLOWED.map((name) => [name, model.get(name)]));
    // The named formats are taken from the table, so that a format is one object wherever it is shown.
    const known = (record) =>
      named.find((f) => f.name === record.name && specOf(f) === specOf(record)) ?? describe(record);
    return makeState({ ...traits, format: known(traits.format), others: traits.others.map(known) });
  };
  const store = {
    state: read(),
    set(state) {
      store.state = state;
      saving = true; // what this side sets need not be followed
      save(state);
      saving = false;
      changed(state);
    },
    stop() {
      for (const name of FOLLOWED) model.off(`change:${name}`, follow);
    },
  };
  function save(state) {
    const keys = Object.keys(model.get("formats")[0]);
    const record = (f) => Object.fromEntries(keys.map((key) => [key, f[key]]));
    const traits = { ...state, format: record(state.format), others: state.others.map(record) };
    for (const name of FOLLOWED) {
      if (JSON.stringify(model.get(name)) !== JSON.stringify(traits[name])) model.set(name, traits[name]);
    }
    model.save_changes();
  }
  function follow() {
    if (saving) return;
    store.state = read();
    changed(store.state);
  }
  for (const name of FOLLOWED) model.on(`change:${name}`, follow);
  return store;
}

export default { render };
