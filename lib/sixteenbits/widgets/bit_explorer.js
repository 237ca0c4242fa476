// BitExplorer: a number, its bits, its neighbors, and what other formats make of it. See bit_explorer.py for the traits.

import { copyButton, h, setText, shareFragment, watchWidth } from "./base.js";
import {
  codeIn, double, flip, fromFragment, held, heldText, hex, negated, setCode, step, storing, toFragment, toPython,
  typed, withFormat,
} from "./bit_state.js";
import { ACCEPTED, brief, exactDecimal, powerOfTwo, rounded, shorten, shortest } from "./decimal.js";
import { binSentence, gaps, numberLine } from "./number_line.js";
import { describe, exact, fields, kind, log2Floor, neighbor, real } from "./numerics.js";
import { ownFormat, problemWith, specOf } from "./spec.js";

const COLUMNS = ["format", "second"];
const LONG = 90; // characters of an exact value that are shown at once

// -- one format's panel ------------------------------------------------------------------------------------------------

/** The panel of one column. `act(change)` applies a function state → state. Returns { root, update(state), fit(width) }. */
function panel(column, f, color, act) {
  const bits = bitRows(column, f, act);
  const equation = h("p", { class: "sxb-equation" });
  const verdict = h("p", { class: "sxb-verdict" });
  const facts = valueFacts();
  const line = lineView(f);
  const root = h("section", { class: "sxb-panel", "aria-label": f.title },
    h("div", { class: "sxb-title" }, dot(color), f.title, h("small", { text: split(f) })),
    bits.root, equation, verdict, toolbar(column, f, act), facts.root, line.root);
  return {
    root,
    update(state) {
      const code = codeIn(state, column);
      bits.update(code);
      equation.replaceChildren(...product(code, f));
      setText(verdict, sayStoring(state, code, f));
      facts.update(code, f);
      line.update(code, held(state), heldText(state));
    },
    fit(width, narrow) {
      bits.fit(width, narrow);
      line.fit(width);
    },
  };
}

/** A format's color in the book's charts; nothing for a format of one's own. */
const dot = (color) => (color ? h("span", { class: "sxb-dot", style: `background: ${color}` }) : null);

/** "16 bits: 1 + 5 + 10". */
const split = (f) => `${f.bits} bits: ${f.signed ? "1 + " : ""}${f.exponent_bits} + ${f.mantissa_bits}`;

/** Buttons for the bits, in their fields; arrow keys move, 0 and 1 set, space and enter toggle. */
function bitRows(column, f, act) {
  const parts = [
    f.signed && { name: "sign", high: f.bits - 1, count: 1 },
    { name: "exponent", high: f.magnitude_bits - 1, count: f.exponent_bits },
    f.mantissa_bits > 0 && { name: "mantissa", high: f.mantissa_bits - 1, count: f.mantissa_bits },
  ].filter(Boolean);
  const buttons = []; // the highest bit first, as they are read
  const readings = {};
  const grids = [];
  const root = h("div", { class: "sxb-bits", role: "group", "aria-label": `Bits of ${f.title}: arrow keys move, 0 and 1 set` });
  for (const { name, high, count } of parts) {
    const grid = h("div", { class: "sxb-bitgrid" });
    grids.push({ grid, count });
    for (let bit = high; bit > high - count; bit -= 1) {
      const button = h("button", {
        type: "button", class: "sxb-bit", "data-bit": bit, tabindex: -1, onclick: () => focusAfter(bit, (s) => flip(s, column, bit)),
      });
      buttons.push(button);
      grid.append(button);
    }
    readings[name] = h("div", { class: "sxb-reading" });
    root.append(h("div", { class: `sxb-field sxb-${name}` }, h("div", { class: "sxb-name", text: name }), grid, readings[name]));
  }
  const at = (bit) => buttons[f.bits - 1 - bit];
  const focusAfter = (bit, change) => { select(at(bit)); act(change); };

  function select(button) {
    for (const b of buttons) b.tabIndex = b === button ? 0 : -1;
    button.focus();
  }
  buttons[Math.min(f.bits - 1, Math.max(0, f.bits - 1 - f.mantissa_bits))].tabIndex = 0;
  root.addEventListener("keydown", (event) => {
    const bit = Number(event.target.dataset?.bit);
    if (!Number.isInteger(bit) || event.ctrlKey || event.metaKey || event.altKey) return;
    const move = { ArrowLeft: bit + 1, ArrowRight: bit - 1, Home: f.bits - 1, End: 0 }[event.key];
    if (move !== undefined) select(at(Math.min(Math.max(move, 0), f.bits - 1)));
    else if (event.key === "ArrowUp" || event.key === "ArrowDown") act((s) => step(s, column, event.key === "ArrowUp" ? 1 : -1));
    else if (event.key === "0" || event.key === "1") {
      act((s) => setBit(s, column, bit, event.key === "1"));
      select(at(Math.max(bit - 1, 0)));
    } else return; // space and enter are the button's own
    event.preventDefault();
    event.stopPropagation();
  });

  return {
    root,
    update(code) {
      for (const button of buttons) {
        const bit = Number(button.dataset.bit);
        const on = ((code >> BigInt(bit)) & 1n) === 1n;
        if (button.textContent === (on ? "1" : "0")) continue;
        button.textContent = on ? "1" : "0";
        button.classList.toggle("sxb-on", on);
        button.setAttribute("aria-pressed", on);
        button.setAttribute("aria-label", `${on ? 1 : 0}, ${bitName(bit, f)}`);
      }
      const read = readFields(code, f);
      for (const name of Object.keys(readings)) readings[name].replaceChildren(...[read[name]].flat());
    },
    fit(width, narrow) {
      const bitWidth = narrow ? 47 : 33; // with the space between, as in the style sheet
      const room = Math.max(1, Math.floor((width + 2) / bitWidth));
      for (const { grid, count } of grids) {
        grid.style.setProperty("--sxb-columns", Math.ceil(count / Math.ceil(count / Math.min(room, 26))));
      }
    },
  };
}

function setBit(state, column, bit, on) {
  const mask = 1n << BigInt(bit);
  const code = codeIn(state, column);
  return setCode(state, column, on ? code | mask : code & ~mask);
}

function bitName(bit, f) {
  if (bit >= f.magnitude_bits) return "sign bit";
  if (bit >= f.mantissa_bits) return `exponent bit worth ${2 ** (bit - f.mantissa_bits)}`;
  return `mantissa bit worth 2 to the ${bit - f.mantissa_bits}`;
}

/** What each field says, in the reader's terms. */
function readFields(code, f) {
  const { negative, exponent, mantissa } = fields(code, f);
  const what = kind(code, f);
  const sign = negative ? "−" : "+";
  if (what === "nan" || what === "infinity") return { sign, ...readReserved(what, exponent, f) };
  const fraction = `${mantissa}/${f.step}`;
  if (what === "normal") return { sign, exponent: [`${exponent} − ${bias(f)} = `, strong(exponent - f.bias)], mantissa: `1 + ${fraction}` };
  if (!f.subnormals) return { sign, exponent: "0 means zero", mantissa: "ignored" };
  return { sign, exponent: [`0 means 1 − ${bias(f)} = `, strong(f.emin)], mantissa: `0 + ${fraction}` };
}

/** The fields of a code that stands for no number: why it does not. */
function readReserved(what, exponent, f) {
  const means = what === "nan" ? "→ NaN" : "→ ∞";
  if (f.nan === "ieee") return { exponent: `${exponent}: reserved`, mantissa: what === "nan" ? `not 0 ${means}` : `0 ${means}` };
  const reason = what === "nan" && f.nan === "fnuz" ? "no −0 here" : what === "nan" || f.nan !== "fn" ? "top code" : "top code but one";
  return f.mantissa_bits ? { exponent, mantissa: `${reason} ${means}` } : { exponent: `${exponent}: ${reason} ${means}` };
}

const bias = (f) => (f.bias < 0 ? `(−${-f.bias})` : f.bias);
const minus = (n) => String(n).replace("-", "−");
const strong = (n) => h("b", { text: minus(n) });

/** sign × 2^exponent × significand = value, each factor in the color of its field. */
function product(code, f) {
  const { negative, exponent, mantissa } = fields(code, f);
  const what = kind(code, f);
  const part = (name, ...content) => h("span", { class: `sxb-factor sxb-${name}` }, ...content);
  const result = h("strong", { text: minus(brief(exact(code, f), 24)) });
  if (what === "nan" || what === "infinity") {
    return [result, what === "nan" ? " (not a number)" : negative ? " (below every number)" : " (above every number)"];
  }
  if (what === "zero" && !f.subnormals) return [part("sign", negative ? "−" : "+"), " ", result];
  const normal = what === "normal";
  const power = normal ? exponent - f.bias : f.emin;
  const significand = real(false, (normal ? f.step : 0n) + mantissa, 1n, -f.mantissa_bits);
  return [
    f.signed ? part("sign", negative ? "−1" : "+1") : "", f.signed ? " × " : "",
    part("exponent", "2", h("sup", { text: minus(power) })), " × ",
    part("mantissa", brief(significand, 24)), " = ", result,
  ];
}

/** How far the held number is from what the format stores; empty where it is stored exactly. */
function sayStoring(state, code, f) {
  const x = held(state);
  const s = storing(x, f, code);
  if (s.exact) return "";
  const name = shorten(heldText(state), 28);
  if (!s.absolute) return `${name} in ${f.title}: ${s.words}.`;
  const words = s.words === "rounded" ? "" : `; ${s.words}`;
  return `${f.title} stores ${name} with an error of ${rounded(s.absolute, 3)}, that is ${rounded(s.ulps, 3)} ulp${words}.`;
}

function toolbar(column, f, act) {
  const button = (label, name, change) => h("button", { type: "button", class: "sxb-tool", "aria-label": `${label}: ${name}`, onclick: () => act(change) }, label);
  return h("div", { class: "sxb-tools", role: "group", "aria-label": `Change ${f.title}` },
    button("−1 ulp", "next value down", (s) => step(s, column, -1)),
    button("+1 ulp", "next value up", (s) => step(s, column, 1)),
    button("÷ 2", "halve", (s) => double(s, column, -1)),
    button("× 2", "double", (s) => double(s, column, 1)),
    f.signed ? button("±", "change the sign", (s) => negated(s, column)) : null);
}

/** Exact value, shortest decimal, bits: a list that can be copied from. */
function valueFacts() {
  const all = h("button", { type: "button", class: "sxb-quiet", onclick: () => { open = !open; show(); } });
  const values = { exact: h("span"), shortest: h("span"), bits: h("span") };
  let open = false;
  let digits = "";
  const root = h("dl", { class: "sxb-facts" },
    Object.entries(values).flatMap(([name, value]) => [h("dt", { text: name }), h("dd", {}, value, name === "exact" ? all : null)]));
  function show() {
    const long = digits.length > LONG;
    setText(values.exact, long && !open ? digits.slice(0, LONG - 12) + "…" : digits);
    all.hidden = !long;
    setText(all, open ? "fewer" : `all ${digits.replace(/[-.]/g, "").length} digits`);
  }
  return {
    root,
    update(code, f) {
      digits = exactDecimal(exact(code, f));
      show();
      setText(values.shortest, shortest(code, f));
      setText(values.bits, `${hex(code, f)} = 0b${code.toString(2).padStart(f.bits, "0")}`);
    },
  };
}

/** The number line with its words. */
function lineView(f) {
  const drawing = h("div", { class: "sxb-drawing", role: "img" });
  const sentence = h("p");
  const below = h("p");
  let last = null;
  let width = 0;
  const draw = () => {
    if (!last || !width) return;
    const picture = numberLine(...last, width);
    drawing.replaceChildren(...(picture ? [picture] : []));
    drawing.hidden = !picture;
  };
  return {
    root: h("div", { class: "sxb-neighborhood" }, drawing, below, sentence),
    update(code, x, name) {
      last = [code, f, x, name];
      setText(sentence, binSentence(code, f));
      setText(below, neighborSentence(code, f));
      drawing.setAttribute("aria-label", `Number line around ${brief(exact(code, f), 16)}`);
      draw();
    },
    fit(w) {
      width = w;
      draw();
    },
  };
}

/** The neighbors and the gaps to them. */
function neighborSentence(code, f) {
  if (kind(code, f) === "nan") return "";
  const distance = gaps(code, f);
  const side = (direction, name, gap) => {
    const next = neighbor(code, direction, f);
    if (next === code) return `nothing ${name}`;
    return `${name} ${kind(next, f) === "infinity" ? "infinity" : brief(exact(next, f), 16)}${gap ? ` (gap ${gapText(gap)})` : ""}`;
  };
  return `Neighbors: ${side(-1, "below", distance.below)}, ${side(1, "above", distance.above)}.`;
}

/** A gap, which is a power of two: "2⁻¹⁴ ≈ 6.1e-5", "2⁻¹ = 0.5". */
function gapText(gap) {
  const size = brief(gap, 6);
  return `${powerOfTwo(log2Floor(gap))} ${size.includes("…") ? `≈ ${rounded(gap, 2)}` : `= ${size}`}`;
}

// -- the other formats -------------------------------------------------------------------------------------------------

/** The table of what every named format makes of the number. Choosing a row puts it beside the first format. */
function formatTable(named, colors, act) {
  const rows = named.map((f) => {
    const cells = ["stored", "off", "relative", "ulps"].map((name) => h("td", { role: "cell", class: `sxb-${name}` }));
    const words = h("td", { role: "cell", class: "sxb-words" });
    const choose = h("button", { type: "button", class: "sxb-pick", onclick: () => act((s) => withFormat(s, "second", f)) },
      dot(colors[f.name]), f.title);
    const row = h("tr", { role: "row" }, h("th", { role: "rowheader", scope: "row" }, choose), cells, words);
    return { f, row, cells, words, choose };
  });
  const heads = ["Format", "Stored", "Error", "Relative", "In ulps", ""];
  const root = h("details", { class: "sxb-others", open: true },
    h("summary", { text: "The same number in other formats" }),
    h("table", { role: "table" },
      h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, heads.map((text) => text
        ? h("th", { role: "columnheader", scope: "col", text })
        : h("td", { role: "cell" })))),
      h("tbody", { role: "rowgroup" }, rows.map(({ row }) => row))));
  return {
    root,
    update(state) {
      const x = held(state);
      for (const { f, row, cells, words, choose } of rows) {
        const s = storing(x, f);
        const error = (e) => (e ? rounded(e, 3) : s.exact ? "0" : "–");
        [brief(exact(s.code, f), 16), error(s.absolute), error(s.relative), error(s.ulps)].forEach((text, i) => setText(cells[i], text));
        setText(words, s.words);
        row.className = s.exact ? "sxb-exact" : s.words === "rounded" ? "sxb-rounded" : "sxb-lost";
        row.classList.toggle("sxb-no-error", !s.absolute);
        const shown = COLUMNS.some((column) => state[column]?.name === f.name);
        choose.setAttribute("aria-pressed", shown);
      }
    },
  };
}

// -- the controls at the top -------------------------------------------------------------------------------------------

/** The text field. Reads while typing; complains only when the reader has finished. */
function numberField(id, attempt) {
  const input = h("input", {
    id, type: "text", class: "sxb-number", spellcheck: "false", autocomplete: "off", autocapitalize: "off",
    enterkeyhint: "done", "aria-describedby": `${id}-hint`,
  });
  const hint = h("p", { id: `${id}-hint`, class: "sxb-hint" });
  const message = h("p", { class: "sxb-message", role: "alert", hidden: true });
  const complain = (text) => {
    setText(message, text);
    message.hidden = !text;
    input.setAttribute("aria-invalid", text !== "");
  };
  hint.textContent = "0.1 · 1/3 · 2^-24 · 6e-8 · inf · nan · bits as 0x3c00 or 0b0011";
  hint.title = `Accepted: ${ACCEPTED}.`;
  input.addEventListener("input", () => { attempt(input.value); complain(""); });
  input.addEventListener("change", () => complain(attempt(input.value)));
  input.addEventListener("keydown", (event) => {
    event.stopPropagation(); // no shortcut of the page or the notebook
    if (event.key === "Enter") complain(attempt(input.value));
  });
  return {
    root: h("div", { class: "sxb-entry" }, h("label", { for: id, text: "Number or bits" }), input),
    below: h("div", { class: "sxb-below" }, hint, message),
    show(text) {
      if (document.activeElement === input && !message.hidden) return; // what was typed stays until it is mended
      if (input.value !== text) input.value = text;
      complain("");
    },
    input,
  };
}

/** A choice of formats, with a description of one's own. `choose(format or null)`. */
function formatChoice(id, label, named, none, choose) {
  const select = h("select", { id },
    none ? h("option", { value: "", text: none }) : null,
    named.map((f) => h("option", { value: f.name, text: f.title })),
    h("option", { value: "own", text: "Own format…" }));
  const own = ownEditor(id, choose);
  let current = null;
  select.addEventListener("change", () => {
    const named_ = named.find((f) => f.name === select.value);
    if (select.value === "own") choose(describe(ownFrom(current ?? named[3])));
    else choose(named_ ?? null);
  });
  return {
    root: h("div", { class: "sxb-choice" }, h("label", { for: id, text: label }), select),
    editor: own.root,
    show(f) {
      current = f;
      const isNamed = f && named.some((n) => n.name === f.name && specOf(n) === specOf(f));
      select.value = !f ? "" : isNamed ? f.name : "own";
      own.show(f && !isNamed ? f : null);
    },
  };
}

/** A format of one's own to start from: the fields of a named one, as far as 32 bits go. */
function ownFrom(f) {
  if (f.bits > 32) return ownFormat(8, 23);
  const { bias, nan, infinities, subnormals, signed, zero } = f;
  return ownFormat(f.exponent_bits, f.mantissa_bits, { bias, nan, infinities, subnormals, signed, zero });
}

const NAN_RULES = [["ieee", "IEEE"], ["fn", "top code"], ["fnuz", "code of −0"], ["none", "none"]];

/** The fields of a format of one's own. */
function ownEditor(id, choose) {
  const number = (name, min, max) => h("input", { id: `${id}-${name}`, type: "number", min, max, step: 1, inputmode: "numeric" });
  const check = (name) => h("input", { id: `${id}-${name}`, type: "checkbox" });
  const inputs = {
    exponent: number("exponent", 1, 15), mantissa: number("mantissa", 0, 30), bias: number("bias"),
    nan: h("select", { id: `${id}-nan` }, NAN_RULES.map(([value, text]) => h("option", { value, text }))),
    infinities: check("infinities"), subnormals: check("subnormals"), signed: check("signed"),
  };
  const message = h("p", { class: "sxb-message", role: "alert", hidden: true });
  const field = (key, label) => h("div", { class: inputs[key].type === "checkbox" ? "sxb-check" : "sxb-choice" },
    ...(inputs[key].type === "checkbox" ? [inputs[key], h("label", { for: inputs[key].id, text: label })]
      : [h("label", { for: inputs[key].id, text: label }), inputs[key]]));
  const root = h("fieldset", { class: "sxb-own", hidden: true }, h("legend", { text: "Own format" }),
    field("exponent", "Exponent bits"), field("mantissa", "Mantissa bits"), field("bias", "Bias"), field("nan", "NaN"),
    field("infinities", "infinities"), field("subnormals", "subnormals"), field("signed", "signed"), message);
  let shown = null;

  function change(event) {
    const [e, m] = [inputs.exponent, inputs.mantissa].map((input) => input.valueAsNumber);
    const rest = {
      nan: inputs.nan.value, subnormals: inputs.subnormals.checked, signed: inputs.signed.checked,
      infinities: event.target === inputs.nan ? inputs.nan.value === "ieee" : inputs.infinities.checked,
      zero: inputs.subnormals.checked || (shown?.zero ?? true),
    };
    if (event.target !== inputs.exponent) rest.bias = inputs.bias.valueAsNumber; // the usual bias follows the exponent bits
    const problem = problemWith({ bias: 0, ...rest, exponent_bits: e, mantissa_bits: m });
    setText(message, problem ?? "");
    message.hidden = !problem;
    if (!problem) choose(describe(ownFormat(e, m, rest)));
  }
  root.addEventListener("input", change);
  root.addEventListener("keydown", (event) => event.stopPropagation());
  return {
    root,
    show(f) {
      shown = f;
      root.hidden = !f;
      if (!f) return;
      const set = (input, value) => { if (input.value !== String(value)) input.value = value; };
      set(inputs.exponent, f.exponent_bits);
      set(inputs.mantissa, f.mantissa_bits);
      set(inputs.bias, f.bias);
      set(inputs.nan, f.nan);
      for (const key of ["infinities", "subnormals", "signed"]) inputs[key].checked = f[key];
      message.hidden = true;
    },
  };
}

// -- the whole ---------------------------------------------------------------------------------------------------------

let count = 0; // ids have to differ between the explorers of a page

function render({ model, el }) {
  const id = `sxb-${Date.now().toString(36)}-${(count += 1)}-${Math.random().toString(36).slice(2, 6)}`;
  const named = model.get("formats").map(describe);
  let state = fromModel(model);
  const start = state;

  let saving = false;

  function adopt(next) {
    state = next;
    saving = true; // what this side sets need not be followed
    toModel(state, model);
    saving = false;
    draw();
  }
  const act = (change) => {
    adopt(change(state));
    fragment.write(toFragment(state, named));
  };
  const field = numberField(id, (text) => {
    try {
      act((s) => typed(s, text));
      return "";
    } catch (problem) {
      if (!(problem instanceof SyntaxError)) throw problem;
      return problem.message;
    }
  });
  const choices = {
    format: formatChoice(`${id}-format`, "Format", named, null, (f) => act((s) => withFormat(s, "format", f))),
    second: formatChoice(`${id}-second`, "Beside it", named, "nothing", (f) => act((s) => withFormat(s, "second", f))),
  };
  const colors = model.get("colors") ?? {};
  const table = formatTable(named, colors, act);
  const status = h("p", { class: "sxb-offscreen", role: "status" });
  const slots = { format: h("div", { class: "sxb-slot" }), second: h("div", { class: "sxb-slot" }) };
  const columns = h("div", { class: "sxb-columns" }, slots.format, slots.second);
  const root = h("div", { class: "sxb", role: "group", "aria-label": "Bit explorer", "data-lm-suppress-shortcuts": "true" });
  const panels = { format: null, second: null };
  let width = 0;

  const fragment = shareFragment(root, {
    show(text) {
      const read = fromFragment(text, named);
      if (read) adopt(read);
      return read !== null;
    },
    restore: () => adopt(start),
  });
  const links = h("div", { class: "sxb-links" },
    fragment.link ? copyButton("Copy link", () => fragment.link(toFragment(state, named))) : null,
    copyButton("Copy Python", () => toPython(state, named)));

  function draw() {
    for (const column of COLUMNS) {
      choices[column].show(state[column]);
      if (panels[column]?.key !== (state[column] && specOf(state[column]) + state[column].title)) rebuild(column);
      panels[column]?.update(state);
    }
    if (document.activeElement !== field.input || field.input.value === "") field.show(heldText(state));
    table.update(state);
    setText(status, COLUMNS.filter((c) => state[c]).map((c) => describeAloud(state, c)).join("; "));
  }

  function rebuild(column) {
    const f = state[column];
    panels[column] = f ? { ...panel(column, f, colors[f.name], act), key: specOf(f) + f.title } : null;
    slots[column].replaceChildren(...(f ? [panels[column].root] : []));
    slots[column].hidden = !f;
    fit();
  }

  function fit() {
    if (!width) return;
    const narrow = width < 480;
    if (narrow !== root.classList.contains("sxb-narrow")) table.root.open = !narrow; // long on a phone: only when asked for
    root.classList.toggle("sxb-narrow", narrow);
    const two = state.second && width >= 640;
    columns.classList.toggle("sxb-side", Boolean(two));
    for (const column of COLUMNS) panels[column]?.fit(contentWidth(slots[column]), narrow);
  }

  root.append(
    h("div", { class: "sxb-top" }, field.root, field.below, choices.format.root, choices.second.root),
    choices.format.editor, choices.second.editor, columns, table.root, links, status);
  el.append(root);
  draw();
  const unwatch = watchWidth(root, (w) => { width = w; fit(); });
  const follow = ["format", "second", "code", "number"].map((name) => [`change:${name}`, () => {
    if (saving) return;
    state = followModel(model, name);
    draw();
  }]);
  for (const [event, callback] of follow) model.on(event, callback);
  return () => {
    unwatch();
    fragment.stop();
    for (const [event, callback] of follow) model.off(event, callback);
  };
}

function contentWidth(element) {
  const { paddingLeft, paddingRight } = getComputedStyle(element);
  return element.clientWidth - parseFloat(paddingLeft) - parseFloat(paddingRight);
}

function describeAloud(state, column) {
  const code = codeIn(state, column);
  return `${state[column].title} ${brief(exact(code, state[column]), 24)}, ${hex(code, state[column])}`;
}

// -- the traits --------------------------------------------------------------------------------------------------------

function fromModel(model) {
  const format = describe(model.get("format"));
  const second = model.get("second");
  const number = model.get("number");
  const mask = (1n << BigInt(format.bits)) - 1n;
  const state = { format, second: second && describe(second), code: BigInt(model.get("code")) & mask, number: "", pinned: null };
  return number ? typed(state, number) : state;
}

/** The state after a change from Python, whose traits arrive one by one: the number rules, unless the code is the news. */
function followModel(model, changed) {
  const next = fromModel(model);
  const code = BigInt(model.get("code"));
  return changed === "code" && code !== next.code && code >> BigInt(next.format.bits) === 0n
    ? { ...next, code, number: "" }
    : next;
}

function toModel(state, model) {
  const keys = Object.keys(model.get("formats")[0]);
  const record = (f) => f && Object.fromEntries(keys.map((key) => [key, f[key]]));
  const traits = {
    format: record(state.format), second: record(state.second), code: `0x${state.code.toString(16)}`, number: state.number,
  };
  for (const [name, value] of Object.entries(traits)) {
    if (JSON.stringify(model.get(name)) !== JSON.stringify(value)) model.set(name, value);
  }
  model.save_changes();
}

export default { render };
