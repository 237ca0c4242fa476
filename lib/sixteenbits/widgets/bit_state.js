// What BitExplorer shows, and what each action makes of it. Pure functions, no DOM.
//
// A state is { format, code, number, second, pinned }:
//   format, second   descriptions of formats (numerics.js: describe); second may be null
//   code             the bits shown in `format`
//   number           the number that is held, as text; "" when it is the value of the code
//   pinned           bits that the reader set in `second`; null when they follow from the number
// One number is held, and every format shows what it makes of it: 0.1 is rounded once into each, never through another.

import { exactText, readNumber, shortest } from "./decimal.js";
import {
  absolute,
  bin,
  compare,
  describe,
  divide,
  encodeReal,
  exact,
  kind,
  log2Floor,
  neighbor,
  negate,
  real,
  scale,
  subtract,
  ulp,
} from "./numerics.js";
import { fromSpec, specOf } from "./spec.js";

/** The code of a Real in a format; a number that the format cannot express at all (NaN, a negative) gives zero. */
export function codeOf(x, f) {
  return encodeReal(x, f, { nan: 0 });
}

/** The number that a state holds, exactly. */
export function held(state) {
  return state.number ? readNumber(state.number).number : exact(state.code, state.format);
}

/** The number that a state holds, as text. */
export const heldText = (state) => state.number || exactText(held(state));

/** The code shown in one of the columns, "format" or "second". */
export function codeIn(state, column) {
  if (column === "format") return state.code;
  return state.pinned ?? codeOf(held(state), state.second);
}

// -- actions: state in, state out ------------------------------------------------------------------------------------

/** The bits of a column set to a code: its value is the number that is held from now on. */
export function setCode(state, column, code) {
  if (column === "format") return { ...state, code, number: "", pinned: null };
  const x = exact(code, state.second);
  return { ...hold(state, x), pinned: code };
}

/** A number held: each column rounds it. `text` names it where the first column's code does not. */
function hold(state, x, text = exactText(x)) {
  const code = codeOf(x, state.format);
  return { ...state, code, number: same(x, exact(code, state.format)) ? "" : text, pinned: null };
}

/** Whether two Reals are the same number; minus zero is not zero. */
function same(a, b) {
  if (a.kind !== b.kind || a.negative !== b.negative) return false;
  return a.kind !== "finite" || compare(a, b) === 0;
}

export const flip = (state, column, bit) => setCode(state, column, codeIn(state, column) ^ (1n << BigInt(bit)));

/** One ulp up (direction 1) or down (-1). */
export const step = (state, column, direction) =>
  setCode(state, column, neighbor(codeIn(state, column), direction, state[column]));

/** The value of a column doubled (n = 1) or halved (n = -1), rounded where it must be. */
export function double(state, column, n) {
  return hold(state, scale(exact(codeIn(state, column), state[column]), n));
}

export function negated(state, column) {
  return hold(state, negate(exact(codeIn(state, column), state[column])));
}

/** What a typed text makes of the state. Throws SyntaxError with a sentence for the reader. */
export function typed(state, text) {
  const read = readNumber(text);
  if (read.bits === undefined) return hold(state, read.number, read.text);
  const { bits, title } = state.format;
  const width = read.bits.toString(2).length;
  if (width > bits) throw new SyntaxError(`${text.trim()} has ${width} bits; ${title} takes at most ${bits}.`);
  return setCode(state, "format", read.bits);
}

/** Another format in a column (null closes the second); the number stays. */
export function withFormat(state, column, format) {
  if (column === "second") return { ...state, second: format, pinned: null };
  const x = held(state);
  return hold({ ...state, format }, x, state.number || undefined);
}

// -- links -----------------------------------------------------------------------------------------------------------

/** The state as the fragment of a link, without #: fp16/0x3c00, fp16/0.1/bf16, e5m10b15/0x3c00. */
export function toFragment(state, named) {
  const name = (f) => (named.some((n) => n.name === f.name && specOf(n) === specOf(f)) ? f.name : specOf(f));
  const parts = [name(state.format), state.number || hex(state.code, state.format)];
  if (state.second) parts.push(name(state.second));
  if (state.second && state.pinned !== null) parts.push(hex(state.pinned, state.second));
  return parts.map(encodeURIComponent).join("/");
}

/** The state that a fragment means, or null where it means none. */
export function fromFragment(fragment, named) {
  try {
    const [name, value, secondName, secondCode, ...more] = fragment.split("/").map(decodeURIComponent);
    const formatOf = (n) => {
      const f = named.find((f) => f.name === n) ?? fromSpec(n);
      return f && describe(f);
    };
    const format = formatOf(name);
    const second = secondName === undefined ? null : formatOf(secondName);
    if (!format || !value || more.length || (secondName !== undefined && !second)) return null;
    const state = typed({ format, code: 0n, number: "", second, pinned: null }, value);
    if (secondCode === undefined) return state;
    const pinned = BigInt(secondCode);
    return pinned >> BigInt(second.bits) ? null : { ...state, pinned };
  } catch {
    return null; // some other fragment of the page, or a mistyped one: nothing to show
  }
}

export const hex = (code, f) => "0x" + code.toString(16).padStart(Math.ceil(f.bits / 4), "0");

/** The Python expression that makes this explorer. */
export function toPython(state, named) {
  const format = (f) =>
    named.some((n) => n.name === f.name && specOf(n) === specOf(f)) ? `"${f.name}"` : constructor(f);
  const value = state.number ? `value="${state.number}"` : `code=${hex(state.code, state.format)}`;
  const second = state.second ? `, second=${format(state.second)}` : "";
  return `BitExplorer(${format(state.format)}, ${value}${second})`;
}

function constructor(f) {
  const python = (v) => (v === true ? "True" : v === false ? "False" : typeof v === "string" ? `"${v}"` : v);
  const usual = {
    bias: 2 ** (f.exponent_bits - 1) - 1,
    nan: "ieee",
    infinities: f.nan === "ieee",
    subnormals: true,
    signed: true,
    zero: true,
  };
  const rest = Object.keys(usual)
    .filter((key) => f[key] !== usual[key])
    .map((key) => `, ${key}=${python(f[key])}`);
  return `Format("${f.name}", ${f.exponent_bits}, ${f.mantissa_bits}${rest.join("")})`;
}

// -- what a format makes of a number ---------------------------------------------------------------------------------

/**
 * A number stored in a format: { code, kind, stored (shortest decimal), exact, absolute, relative, ulps, words }.
 * The errors are Reals, or null where there is none to speak of; `words` says what happened.
 */
export function storing(x, f, code = codeOf(x, f)) {
  const what = kind(code, f);
  const y = exact(code, f);
  const result = {
    code,
    kind: what,
    stored: shortest(code, f),
    exact: false,
    absolute: null,
    relative: null,
    ulps: null,
  };
  if (x.kind !== "finite" || y.kind !== "finite") return { ...result, ...special(x, y, f) };
  const error = absolute(subtract(y, x));
  if (error.num === 0n) return { ...result, exact: true, words: what === "subnormal" ? "exact, subnormal" : "exact" };
  const words = x.negative && !f.signed ? "no negative numbers" : inexact(x, code, f);
  const relative = x.num === 0n ? null : divide(error, absolute(x));
  return { ...result, absolute: error, relative, ulps: divide(error, ulp(code & ~f.sign_bit, f)), words };
}

function special(x, y, f) {
  if (x.kind === "nan") return { exact: y.kind === "nan", words: y.kind === "nan" ? "not a number" : "has no NaN" };
  if (x.negative && !f.signed) return { words: "no negative numbers → NaN" };
  if (x.kind === "infinity" && y.kind === "infinity") return { exact: true, words: "infinity" };
  const becomes = { nan: "NaN", infinity: y.negative ? "−∞" : "∞", finite: "the largest value" }[y.kind];
  return { words: x.kind === "infinity" ? `no infinity → ${becomes}` : `overflow → ${becomes}` };
}

function inexact(x, code, f) {
  const magnitude = code & ~f.sign_bit;
  const what = kind(code, f);
  if (what === "zero") return "underflow → 0";
  if (x.num === 0n) return "no zero → the smallest value";
  const { low, high, highIn } = bin(magnitude, f);
  const past = compare(absolute(x), high);
  if (magnitude === f.max_code && (past > 0 || (past === 0 && !highIn))) return "overflow → the largest value";
  if (compare(absolute(x), low) < 0) return "underflow → the smallest value";
  if (what === "subnormal") return `subnormal: ${significantBits(magnitude)} of ${f.mantissa_bits + 1} bits left`;
  return "rounded";
}

const significantBits = (magnitude) => log2Floor(real(false, magnitude)) + 1;
