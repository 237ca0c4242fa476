// Controls of the explorers: a field for numbers, a choice of formats with an editor for one's own.

import { h, setText } from "./base.js";
import { ACCEPTED } from "./decimal.js";
import { describe } from "./numerics.js";
import { ownFormat, problemWith, specOf } from "./spec.js";

/** The text field. Reads while typing; complains only when the reader has finished. */
export function numberField(id, attempt) {
  const input = h("input", {
    id,
    type: "text",
    class: "sxb-number",
    spellcheck: "false",
    autocomplete: "off",
    autocapitalize: "off",
    enterkeyhint: "done",
    "aria-describedby": `${id}-hint`,
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
  input.addEventListener("input", () => {
    attempt(input.value);
    complain("");
  });
  input.addEventListener("change", () => complain(attempt(input.value)));
  input.addEventListener("keydown", (event) => {
    event.stopPropagation(); // no shortcut of the page or the notebook
    if (event.key === "Enter") complain(attempt(input.value));
  });
  return {
    root: h("div", { class: "sxb-entry" }, h("label", { for: id, text: "Number or bits" }), input),
    below: h("div", { class: "sxb-below" }, hint, message),
    /** Shows a number, but not while the reader is typing one. */
    show(text) {
      if (document.activeElement === input && input.value !== "") return;
      input.value = text;
      complain("");
    },
  };
}

/** A choice of formats, with an editor for one's own. `none` is the word for no format; `choose(format or null)`. */
export function formatChoice({ id, label, named, none, choose }) {
  const option = (value, text) => h("option", { value, text });
  const select = h(
    "select",
    { id },
    none ? option("", none) : null,
    named.map((f) => option(f.name, f.title)),
    option("own", "Own format…"),
  );
  const own = ownEditor(id, none ? `Own format: ${label.toLowerCase()}` : "Own format", choose);
  let current = null;
  select.addEventListener("change", () => {
    if (select.value === "own") choose(describe(ownFrom(current)));
    else choose(named.find((f) => f.name === select.value) ?? null);
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

/** A format of one's own to start from: the fields of the one that is shown, as far as 32 bits go. */
function ownFrom(f) {
  if (!f) return ownFormat(5, 10);
  if (f.bits > 32) return ownFormat(8, 23);
  const { bias, nan, infinities, subnormals, signed, zero } = f;
  return ownFormat(f.exponent_bits, f.mantissa_bits, { bias, nan, infinities, subnormals, signed, zero });
}

const NAN_RULES = [
  ["ieee", "IEEE"],
  ["fn", "top code"],
  ["fnuz", "code of −0"],
  ["none", "none"],
];

/** The fields of a format of one's own. */
function ownEditor(id, legend, choose) {
  const inputs = ownInputs(id);
  const message = h("p", { class: "sxb-message", role: "alert", hidden: true });
  const fields = Object.entries(OWN_LABELS).map(([key, text]) => {
    const label = h("label", { for: inputs[key].id, text });
    return inputs[key].type === "checkbox"
      ? h("div", { class: "sxb-check" }, inputs[key], label)
      : h("div", { class: "sxb-choice" }, label, inputs[key]);
  });
  const root = h("fieldset", { class: "sxb-own", hidden: true }, h("legend", { text: legend }), fields, message);
  let shown = null;

  root.addEventListener("input", (event) => {
    const format = readOwn(inputs, event.target, shown);
    const problem = problemWith(format);
    setText(message, problem ?? "");
    message.hidden = !problem;
    if (!problem) choose(describe(format));
  });
  root.addEventListener("keydown", (event) => event.stopPropagation());
  return {
    root,
    show(f) {
      shown = f;
      root.hidden = !f;
      if (f) showOwn(inputs, f);
      message.hidden = true;
    },
  };
}

const OWN_LABELS = {
  exponent: "Exponent bits",
  mantissa: "Mantissa bits",
  bias: "Bias",
  nan: "NaN",
  infinities: "infinities",
  subnormals: "subnormals",
  signed: "signed",
};

function ownInputs(id) {
  const number = (name, min, max) =>
    h("input", { id: `${id}-${name}`, type: "number", min, max, step: 1, inputmode: "numeric" });
  const check = (name) => h("input", { id: `${id}-${name}`, type: "checkbox" });
  const rules = NAN_RULES.map(([value, text]) => h("option", { value, text }));
  return {
    exponent: number("exponent", 1, 15),
    mantissa: number("mantissa", 0, 30),
    bias: number("bias"),
    nan: h("select", { id: `${id}-nan` }, rules),
    infinities: check("infinities"),
    subnormals: check("subnormals"),
    signed: check("signed"),
  };
}

/** The format that the inputs describe after one of them has changed; another may follow from that. */
function readOwn(inputs, changed, shown) {
  const rest = {
    nan: inputs.nan.value,
    subnormals: inputs.subnormals.checked,
    signed: inputs.signed.checked,
    infinities: changed === inputs.nan ? inputs.nan.value === "ieee" : inputs.infinities.checked,
    zero: inputs.subnormals.checked || (shown?.zero ?? true),
  };
  if (changed !== inputs.exponent) rest.bias = inputs.bias.valueAsNumber; // the usual bias follows the exponent bits
  return ownFormat(inputs.exponent.valueAsNumber, inputs.mantissa.valueAsNumber, rest);
}

function showOwn(inputs, f) {
  const values = { exponent: f.exponent_bits, mantissa: f.mantissa_bits, bias: f.bias, nan: f.nan };
  for (const [key, value] of Object.entries(values)) {
    if (inputs[key].value !== String(value)) inputs[key].value = value; // the cursor stays where it is
  }
  for (const key of ["infinities", "subnormals", "signed"]) inputs[key].checked = f[key];
}
