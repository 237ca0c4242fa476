// The panel of one format in BitExplorer: bits as buttons, the product they spell, the exact value, the number line.

import { h, setText } from "./base.js";
import { codeIn, double, flip, held, heldText, hex, negated, setCode, step } from "./bit_state.js";
import { binSentence, bitName, minus, neighborSentence, readFields, sayStoring, split } from "./bit_words.js";
import { brief, exactDecimal, shortest } from "./decimal.js";
import { numberLine } from "./number_line.js";
import { exact, fields, kind, real } from "./numerics.js";

const LONG = 90; // characters of an exact value that are shown at once
const BIT_WIDTH = { narrow: 47, wide: 33 }; // px with the space between, as in the style sheet
const MOST_IN_A_ROW = 26; // bits

/** The panel of a column: { root, draw(state), fit(width, narrow) }. `act(change)` applies a function state → state. */
export function panel(column, f, color, act) {
  const bits = bitRows(column, f, act);
  const equation = h("p", { class: "sxb-equation" });
  const verdict = h("p", { class: "sxb-verdict" });
  const facts = valueFacts();
  const line = lineView(f);
  const root = h(
    "section",
    { class: "sxb-panel", "aria-label": f.title },
    h("div", { class: "sxb-title" }, dot(color), f.title, h("small", { text: split(f) })),
    bits.root,
    equation,
    verdict,
    toolbar(column, f, act),
    facts.root,
    line.root,
  );
  return {
    root,
    draw(state) {
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
export const dot = (color) => (color ? h("span", { class: "sxb-dot", style: `background: ${color}` }) : null);

/** The fields of a format, from the left: { name, bits: the positions, the highest first }. */
function fieldsOf(f) {
  const span = (name, high, count) => ({ name, bits: Array.from({ length: count }, (_, i) => high - i) });
  return [
    span("sign", f.bits - 1, f.signed ? 1 : 0),
    span("exponent", f.magnitude_bits - 1, f.exponent_bits),
    span("mantissa", f.mantissa_bits - 1, f.mantissa_bits),
  ].filter(({ bits }) => bits.length);
}

/** Buttons for the bits, in their fields; arrow keys move, 0 and 1 set, space and enter toggle. */
function bitRows(column, f, act) {
  const buttons = new Map(); // by bit
  const flipping = (bit) => () => {
    focus(bit);
    act((s) => flip(s, column, bit));
  };
  const blocks = fieldsOf(f).map(({ name, bits }) => {
    for (const bit of bits) buttons.set(bit, bitButton(bit, flipping(bit)));
    const grid = h("div", { class: "sxb-bitgrid" }, ...bits.map((bit) => buttons.get(bit)));
    const reading = h("div", { class: "sxb-reading" });
    const root = h(
      "div",
      { class: `sxb-field sxb-${name}` },
      h("div", { class: "sxb-name", text: name }),
      grid,
      reading,
    );
    return { name, count: bits.length, grid, reading, root };
  });
  const label = `Bits of ${f.title}: arrow keys move, 0 and 1 set`;
  const root = h(
    "div",
    { class: "sxb-bits", role: "group", "aria-label": label },
    ...blocks.map((block) => block.root),
  );

  // One stop of the tab key for all bits: the one that was used last, at first the lowest of the exponent.
  function focus(bit) {
    for (const [b, button] of buttons) button.tabIndex = b === bit ? 0 : -1;
    if (document.activeElement !== buttons.get(bit)) buttons.get(bit).focus(); // asking costs a layout of the page
  }
  buttons.get(f.mantissa_bits).tabIndex = 0;
  root.addEventListener("keydown", (event) => {
    const bit = Number(event.target.dataset?.bit);
    if (!buttons.has(bit) || event.ctrlKey || event.metaKey || event.altKey) return;
    const answer = bitKey(event.key, bit, column, f);
    if (!answer) return;
    if (answer.change) act(answer.change);
    if (answer.bit !== bit) focus(answer.bit);
    event.preventDefault();
    event.stopPropagation();
  });

  return {
    root,
    update(code) {
      for (const [bit, button] of buttons) showBit(button, bit, code, f);
      const read = readFields(code, f);
      for (const { name, reading } of blocks) {
        const [text, result] = [read[name]].flat();
        reading.replaceChildren(text, ...(result ? [h("b", { text: result })] : []));
      }
    },
    fit(width, narrow) {
      const room = Math.floor((width + 2) / (narrow ? BIT_WIDTH.narrow : BIT_WIDTH.wide));
      const most = Math.min(Math.max(room, 1), MOST_IN_A_ROW);
      for (const { grid, count } of blocks) {
        grid.style.setProperty("--sxb-columns", Math.ceil(count / Math.ceil(count / most)));
      }
    },
  };
}

const bitButton = (bit, onclick) =>
  h("button", { type: "button", class: "sxb-bit", "data-bit": bit, tabindex: -1, onclick });

function showBit(button, bit, code, f) {
  const on = ((code >> BigInt(bit)) & 1n) === 1n;
  const digit = on ? "1" : "0";
  if (button.textContent === digit) return;
  button.textContent = digit;
  button.classList.toggle("sxb-on", on);
  button.setAttribute("aria-pressed", on);
  button.setAttribute("aria-label", `${digit}, ${bitName(bit, f)}`);
}

/** What a key does at a bit: { bit: where the focus goes, change }; null for keys that are not ours. */
function bitKey(key, bit, column, f) {
  const within = (b) => Math.min(Math.max(b, 0), f.bits - 1);
  const moves = { ArrowLeft: bit + 1, ArrowRight: bit - 1, Home: f.bits - 1, End: 0 };
  if (key in moves) return { bit: within(moves[key]) };
  if (key === "ArrowUp" || key === "ArrowDown")
    return { bit, change: (s) => step(s, column, key === "ArrowUp" ? 1 : -1) };
  if (key === "0" || key === "1") return { bit: within(bit - 1), change: (s) => setBit(s, column, bit, key === "1") };
  return null; // space and enter are the button's own
}

function setBit(state, column, bit, on) {
  const mask = 1n << BigInt(bit);
  const code = codeIn(state, column);
  return setCode(state, column, on ? code | mask : code & ~mask);
}

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
    f.signed ? part("sign", negative ? "−1" : "+1") : "",
    f.signed ? " × " : "",
    part("exponent", "2", h("sup", { text: minus(power) })),
    " × ",
    part("mantissa", brief(significand, 24)),
    " = ",
    result,
  ];
}

function toolbar(column, f, act) {
  const button = (label, name, change) =>
    h(
      "button",
      { type: "button", class: "sxb-tool", "aria-label": `${label}: ${name}`, onclick: () => act(change) },
      label,
    );
  return h(
    "div",
    { class: "sxb-tools", role: "group", "aria-label": `Change ${f.title}` },
    button("−1 ulp", "next value down", (s) => step(s, column, -1)),
    button("+1 ulp", "next value up", (s) => step(s, column, 1)),
    button("÷ 2", "halve", (s) => double(s, column, -1)),
    button("× 2", "double", (s) => double(s, column, 1)),
    f.signed ? button("±", "change the sign", (s) => negated(s, column)) : null,
  );
}

/** Exact value, shortest decimal, bits: a list that can be copied from. */
function valueFacts() {
  const all = h("button", {
    type: "button",
    class: "sxb-quiet",
    onclick: () => {
      open = !open;
      show();
    },
  });
  const values = { exact: h("span"), shortest: h("span"), bits: h("span") };
  let open = false;
  let digits = "";
  const root = h(
    "dl",
    { class: "sxb-facts" },
    Object.entries(values).flatMap(([name, value]) => [
      h("dt", { text: name }),
      h("dd", {}, value, name === "exact" ? all : null),
    ]),
  );
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
