// BitExplorer in words: what the fields of a code, its neighbors and its rounding error say to a reader. No DOM.

import { codeIn, held, heldText, hex, storing } from "./bit_state.js";
import { brief, powerOfTwo, rounded, shorten } from "./decimal.js";
import { binOf, gaps } from "./neighborhood.js";
import { exact, fields, kind, log2Floor, neighbor } from "./numerics.js";

const DIGITS = 24; // characters of a value: enough to tell the neighbors of FP64 apart

/** "16 bits: 1 + 5 + 10". */
export const split = (f) => `${f.bits} bits: ${f.signed ? "1 + " : ""}${f.exponent_bits} + ${f.mantissa_bits}`;

/** What a bit is worth, for screen readers. */
export function bitName(bit, f) {
  if (bit >= f.magnitude_bits) return "sign bit";
  if (bit >= f.mantissa_bits) return `exponent bit worth ${2 ** (bit - f.mantissa_bits)}`;
  return `mantissa bit worth 2 to the ${bit - f.mantissa_bits}`;
}

/** What each field says, in the reader's terms: a text, or a text and the number it comes to. */
export function readFields(code, f) {
  const { negative, exponent, mantissa } = fields(code, f);
  const what = kind(code, f);
  const sign = negative ? "−" : "+";
  if (what === "nan" || what === "infinity") return { sign, ...readReserved(what, exponent, f) };
  const fraction = `${mantissa}/${f.step}`;
  if (what === "normal")
    return { sign, exponent: [`${exponent} − ${bias(f)} = `, minus(exponent - f.bias)], mantissa: `1 + ${fraction}` };
  if (!f.subnormals) return { sign, exponent: "0 means zero", mantissa: "ignored" };
  return { sign, exponent: [`0 means 1 − ${bias(f)} = `, minus(f.emin)], mantissa: `0 + ${fraction}` };
}

/** The fields of a code that stands for no number: why it does not. */
function readReserved(what, exponent, f) {
  const means = what === "nan" ? "→ NaN" : "→ ∞";
  if (f.nan === "ieee")
    return { exponent: `${exponent}: reserved`, mantissa: `${what === "nan" ? "not 0" : "0"} ${means}` };
  const topButOne = what === "infinity" && f.nan === "fn";
  const reason = what === "nan" && f.nan === "fnuz" ? "no −0 here" : topButOne ? "top code but one" : "top code";
  if (f.mantissa_bits === 0) return { exponent: `${exponent}: ${reason} ${means}` };
  return { exponent: String(exponent), mantissa: `${reason} ${means}` };
}

/** A number with a proper minus sign. */
export const minus = (n) => String(n).replace("-", "−");
const bias = (f) => (f.bias < 0 ? `(−${-f.bias})` : f.bias);

/** How far the held number is from what the format stores; empty where it is stored exactly. */
export function sayStoring(state, code, f) {
  const x = held(state);
  const s = storing(x, f, code);
  if (s.exact) return "";
  const name = shorten(heldText(state), 28);
  if (!s.absolute) return `${name} in ${f.title}: ${s.words}.`;
  const words = s.words === "rounded" ? "" : `; ${s.words}`;
  const error = `${rounded(s.absolute, 3)}, that is ${rounded(s.ulps, 3)} ulp`;
  return `${f.title} stores ${name} with an error of ${error}${words}.`;
}

/** The neighbors and the gaps to them. */
export function neighborSentence(code, f) {
  if (kind(code, f) === "nan") return "";
  const distance = gaps(code, f);
  const side = (direction, name, gap) => {
    const next = neighbor(code, direction, f);
    if (next === code) return `nothing ${name}`;
    const value = kind(next, f) === "infinity" ? "infinity" : brief(exact(next, f), DIGITS);
    return `${name} ${value}${gap ? ` (gap ${gapText(gap)})` : ""}`;
  };
  return `Neighbors: ${side(-1, "below", distance.below)}, ${side(1, "above", distance.above)}.`;
}

/** A gap, which is a power of two: "2⁻¹⁴ ≈ 6.1e-5", "2⁻¹ = 0.5". */
function gapText(gap) {
  const size = brief(gap, 6);
  return `${powerOfTwo(log2Floor(gap))} ${size.includes("…") ? `≈ ${rounded(gap, 2)}` : `= ${size}`}`;
}

/** The bin in a sentence. */
export function binSentence(code, f) {
  const what = kind(code, f);
  if (what === "nan") return "NaN is not a number: it has no place on the line, and no neighbors.";
  const { low, high, lowIn, highIn } = binOf(code, f);
  const n = (x) => brief(x, DIGITS);
  const to =
    { infinity: (code & f.sign_bit) === 0n ? "infinity" : "minus infinity", zero: "zero" }[what] ?? "this value";
  if (!high) return `Everything ${lowIn ? `from ${n(low)} up` : `above ${n(low)}`} rounds to ${to}.`;
  if (!low) return `Everything ${highIn ? `from ${n(high)} down` : `below ${n(high)}`} rounds to ${to}.`;
  const last = `the last bit is ${code & 1n}, and ties go to the even code`;
  if (lowIn !== highIn) return `Everything between ${n(low)} and ${n(high)} rounds to ${to}.`;
  return lowIn
    ? `Everything from ${n(low)} to ${n(high)} rounds to ${to}, both ends included: ${last}.`
    : `Everything between ${n(low)} and ${n(high)} rounds to ${to}, but not the two ends: ${last}.`;
}

/** A column for screen readers: format, value, code. */
export function describeAloud(state, column) {
  const code = codeIn(state, column);
  return `${state[column].title} ${brief(exact(code, state[column]), DIGITS)}, ${hex(code, state[column])}`;
}
