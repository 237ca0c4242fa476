// Formats of the reader's own: as a short text for links (e5m10b15), checked by the rules of Format in formats.py.

import { MAX_EXPONENT } from "./decimal.js";
import { describe } from "./numerics.js";

const MAX_BITS = 32;
const SPEC = /^e(\d+)m(\d+)(?:b(-?\d+))?((?:-(?:ieee|fn|fnuz|none|inf|noinf|nosub|unsigned|nozero))*)$/;

/** The IEEE-like format with these fields; `rest` overrides the others. */
export function ownFormat(exponentBits, mantissaBits, rest = {}) {
  const nan = rest.nan ?? (mantissaBits === 0 ? "fn" : "ieee");
  const record = {
    name: "",
    exponent_bits: exponentBits,
    mantissa_bits: mantissaBits,
    bias: 2 ** (exponentBits - 1) - 1,
    nan,
    infinities: nan === "ieee",
    subnormals: true,
    signed: true,
    zero: true,
    title: "",
    dtype: null,
    source: null,
    ...rest,
  };
  const name = specOf(record);
  return { ...record, name, title: titleOf(record) };
}

/** The short text of a format, from which `fromSpec` makes it again. */
export function specOf(f) {
  const flags = [
    f.nan === "ieee" ? "" : f.nan,
    f.infinities === (f.nan === "ieee") ? "" : f.infinities ? "inf" : "noinf",
    f.subnormals ? "" : "nosub",
    f.signed ? "" : "unsigned",
    f.zero ? "" : "nozero",
  ].filter(Boolean);
  return [`e${f.exponent_bits}m${f.mantissa_bits}b${f.bias}`, ...flags].join("-");
}

function titleOf(f) {
  const bias = f.bias === 2 ** (f.exponent_bits - 1) - 1 ? "" : `, bias ${f.bias}`;
  return `E${f.exponent_bits}M${f.mantissa_bits}${bias}`;
}

/** The format that a short text names, or null where it names none that is possible. */
export function fromSpec(text) {
  const match = SPEC.exec(text);
  if (!match) return null;
  const [, e, m, b, flags] = match;
  const has = new Set(flags.split("-"));
  const rest = { subnormals: !has.has("nosub"), signed: !has.has("unsigned"), zero: !has.has("nozero") };
  if (b !== undefined) rest.bias = Number(b);
  const rule = ["ieee", "fn", "fnuz", "none"].find((nan) => has.has(nan));
  if (rule) rest.nan = rule;
  if (has.has("inf") || has.has("noinf")) rest.infinities = has.has("inf");
  const format = ownFormat(Number(e), Number(m), rest);
  return problemWith(format) ? null : format;
}

/** What is wrong with the description of a format, as a sentence; null if nothing is. */
export function problemWith(f) {
  const { exponent_bits: e, mantissa_bits: m, bias } = f;
  if (!(Number.isInteger(e) && e >= 1 && e <= 15)) return "Exponent bits: a whole number from 1 to 15.";
  if (!(Number.isInteger(m) && m >= 0 && m <= 30)) return "Mantissa bits: a whole number from 0 to 30.";
  if (!Number.isInteger(bias)) return "Bias: a whole number.";
  const bits = e + m + (f.signed ? 1 : 0);
  if (bits > MAX_BITS) return `${bits} bits in all: at most ${MAX_BITS} are shown here.`;
  if (f.nan === "ieee" && m === 0) return "IEEE rules need a mantissa bit to tell NaN from infinity.";
  if (f.nan === "fnuz" && !f.signed) return "NaN in the place of −0 needs a sign bit.";
  if (!f.zero && f.subnormals) return "Subnormal numbers count up from zero: a format without zero has none.";
  const known = describe(f);
  const first = f.subnormals ? 1n : known.step;
  if (known.max_code < (f.zero ? first : 0n)) return "Zero, infinity and NaN take every code: no number is left.";
  if (Math.max(Math.abs(known.emax), Math.abs(known.emin - m)) > MAX_EXPONENT) {
    return `With this bias the exponents pass ±${MAX_EXPONENT}: choose one nearer to zero.`;
  }
  return null;
}
