// BitExplorer: a number, its bits, its neighbors, and what other formats make of it. bit_explorer.py lists the traits.

import { copyButton, h, setText, shareFragment, watchWidth } from "./base.js";
import { panel } from "./bit_panel.js";
import { fromFragment, heldText, toFragment, toPython, typed, withFormat } from "./bit_state.js";
import { describeAloud } from "./bit_words.js";
import { formatChoice, numberField } from "./controls.js";
import { formatTable } from "./format_table.js";
import { describe } from "./numerics.js";
import { specOf } from "./spec.js";

const COLUMNS = ["format", "second"];
const NARROW = 480; // px; below, the targets are as large as a finger
const SIDE_BY_SIDE = 640;

let count = 0; // ids have to differ between the explorers of a page

function render({ model, el }) {
  const named = model.get("formats").map(describe);
  const store = traitStore(model, (state) => view.draw(state));
  const act = (change) => {
    store.set(change(store.state));
    fragment.write(toFragment(store.state, named));
  };
  const view = explorerView(named, model.get("colors"), act);

  const start = store.state;
  const fragment = shareFragment(view.root, {
    show(text) {
      const read = fromFragment(text, named);
      if (read) store.set(read);
      return read !== null;
    },
    restore: () => store.set(start),
  });
  const copyLink = fragment.link && copyButton("Copy link", () => fragment.link(toFragment(store.state, named)));
  const copyPython = copyButton("Copy Python", () => toPython(store.state, named));
  view.root.append(h("div", { class: "sxb-links" }, copyLink, copyPython));

  el.append(view.root);
  view.draw(store.state);
  const unwatch = watchWidth(view.root, view.fit);
  return () => {
    unwatch();
    fragment.stop();
    store.stop();
  };
}

// -- what is seen -----------------------------------------------------------------------------------------------------

/** Everything but the links: { root, draw(state), fit(width) }. `act(change)` applies a function state → state. */
function explorerView(named, colors, act) {
  const id = `sxb-${(count += 1)}-${Math.random().toString(36).slice(2, 8)}`;
  const attempt = (text) => {
    try {
      act((s) => typed(s, text));
      return "";
    } catch (problem) {
      if (!(problem instanceof SyntaxError)) throw problem;
      return problem.message;
    }
  };
  const field = numberField(id, attempt);
  const choose = (column) => (f) => act((s) => withFormat(s, column, f));
  const choices = {
    format: formatChoice({ id: `${id}-format`, label: "Format", named, choose: choose("format") }),
    second: formatChoice({ id: `${id}-second`, label: "Beside it", named, none: "nothing", choose: choose("second") }),
  };
  const panels = panelColumns(colors, act);
  const table = formatTable(named, colors, act);
  const status = h("p", { class: "sxb-offscreen", role: "status" });
  const root = h(
    "div",
    // JupyterLab keeps its one-letter commands away from what is marked so.
    { class: "sxb", role: "group", "aria-label": "Bit explorer", "data-lm-suppress-shortcuts": "true" },
    h("div", { class: "sxb-top" }, field.root, field.below, choices.format.root, choices.second.root),
    choices.format.editor,
    choices.second.editor,
    panels.root,
    table.root,
    status,
  );
  return {
    root,
    draw(state) {
      for (const column of COLUMNS) choices[column].show(state[column]);
      field.show(heldText(state));
      panels.draw(state);
      table.draw(state);
      const told = COLUMNS.filter((column) => state[column]).map((column) => describeAloud(state, column));
      setText(status, told.join("; "));
    },
    fit(width) {
      const narrow = width < NARROW;
      if (narrow !== root.classList.contains("sxb-narrow")) table.root.open = !narrow; // long on a phone
      root.classList.toggle("sxb-narrow", narrow);
      panels.fit(width, narrow);
    },
  };
}

/** One panel, or two side by side; a panel is made anew when its format changes. */
function panelColumns(colors, act) {
  const slots = Object.fromEntries(COLUMNS.map((column) => [column, h("div", { class: "sxb-slot", hidden: true })]));
  const root = h("div", { class: "sxb-columns" }, Object.values(slots));
  const panels = {};
  let size = null;

  function replace(column, f) {
    panels[column] = f && { ...panel(column, f, colors[f.name], act), key: keyOf(f) };
    slots[column].replaceChildren(...(f ? [panels[column].root] : []));
    slots[column].hidden = !f;
    if (size) fit(...size);
  }
  function fit(width, narrow) {
    size = [width, narrow];
    root.classList.toggle("sxb-side", width >= SIDE_BY_SIDE && Boolean(panels.second));
    for (const column of COLUMNS) panels[column]?.fit(contentWidth(slots[column]), narrow);
  }
  return {
    root,
    fit,
    draw(state) {
      for (const column of COLUMNS) {
        if (panels[column]?.key !== keyOf(state[column])) replace(column, state[column]);
        panels[column]?.draw(state);
      }
    },
  };
}

const keyOf = (f) => (f ? `${specOf(f)} ${f.title}` : undefined);

function contentWidth(element) {
  const { paddingLeft, paddingRight } = getComputedStyle(element);
  return element.clientWidth - parseFloat(paddingLeft) - parseFloat(paddingRight);
}

// -- the traits -------------------------------------------------------------------------------------------------------

/** The state, kept in the traits: { state, set(state), stop() }. `changed(state)` is called after every change. */
function traitStore(model, changed) {
  let saving = false;
  const store = {
    state: fromModel(model),
    set(state) {
      store.state = state;
      saving = true; // what this side sets need not be followed
      toModel(state, model);
      saving = false;
      changed(state);
    },
    stop() {
      for (const [event, follow] of follows) model.off(event, follow);
    },
  };
  const follows = ["format", "second", "code", "number"].map((name) => [
    `change:${name}`,
    () => {
      if (saving) return;
      store.state = followModel(model, name);
      changed(store.state);
    },
  ]);
  for (const [event, follow] of follows) model.on(event, follow);
  return store;
}

function fromModel(model) {
  const format = describe(model.get("format"));
  const second = model.get("second");
  const code = BigInt(model.get("code")) & ((1n << BigInt(format.bits)) - 1n);
  const state = { format, second: second && describe(second), code, number: "", pinned: null };
  const number = model.get("number");
  return number ? typed(state, number) : state;
}

/** The state after a change from Python, whose traits come one by one: the number rules unless the code is the news. */
function followModel(model, changed) {
  const next = fromModel(model);
  const code = BigInt(model.get("code"));
  const isNews = changed === "code" && code !== next.code && code >> BigInt(next.format.bits) === 0n;
  return isNews ? { ...next, code, number: "" } : next;
}

function toModel(state, model) {
  const keys = Object.keys(model.get("formats")[0]);
  const record = (f) => f && Object.fromEntries(keys.map((key) => [key, f[key]]));
  const traits = {
    format: record(state.format),
    second: record(state.second),
    code: `0x${state.code.toString(16)}`,
    number: state.number,
  };
  for (const [name, value] of Object.entries(traits)) {
    if (JSON.stringify(model.get(name)) !== JSON.stringify(value)) model.set(name, value);
  }
  model.save_changes();
}

export default { render };
