// Exact arithmetic on binary floating-point formats. Pure functions, no DOM.
//
// The same formats, rounding modes and rules as codec.py, which a test compares with this file code by code. Python
// hands over the table of formats; nothing about a single format is written here.
//
// Words: a `code` is the BigInt that the bits spell. A `Real` is an exact number,
//   { kind: "finite", negative, num, den, exp }  with the value  ±num/den · 2**exp  (num, den BigInt; exp Number)
//   { kind: "infinity", negative }  or  { kind: "nan", negative: false }.
// Keeping the power of two apart keeps the integers short: 2**-1074 is num 1, den 1, exp -1074.

export const ROUNDINGS = [
  "nearest_even",
  "nearest_away",
  "toward_zero",
  "toward_positive",
  "toward_negative",
  "stochastic",
];

const NAN = Object.freeze({ kind: "nan", negative: false });

// -- formats ---------------------------------------------------------------------------------------------------------

/** A format record from Python together with what follows from it (the same names as the properties of `Format`). */
export function describe(record) {
  const { exponent_bits: e, mantissa_bits: m, bias, nan, infinities, signed, zero } = record;
  const magnitudeBits = e + m;
  const step = 1n << BigInt(m);
  const nansAtTop = { ieee: step - 1n, fn: 1n, fnuz: 0n, none: 0n }[nan];
  const maxCode = (1n << BigInt(magnitudeBits)) - 1n - nansAtTop - (infinities ? 1n : 0n);
  const nanCode = {
    ieee: (1n << BigInt(magnitudeBits)) - step + (1n << BigInt(Math.max(m - 1, 0))),
    fn: (1n << BigInt(magnitudeBits)) - 1n,
    fnuz: 1n << BigInt(magnitudeBits),
    none: null,
  }[nan];
  const firstField = zero ? 1 : 0;
  return Object.freeze({
    ...record,
    bits: magnitudeBits + (signed ? 1 : 0),
    magnitude_bits: magnitudeBits,
    max_code: maxCode,
    infinity_code: infinities ? maxCode + 1n : null,
    nan_code: nanCode,
    has_nan: nan !== "none",
    has_minus_zero: signed && zero && nan !== "fnuz",
    emin: firstField - bias,
    emax: Math.max(Number(maxCode >> BigInt(m)), firstField) - bias,
    step, // codes in a binade
    sign_bit: signed ? 1n << BigInt(magnitudeBits) : 0n,
  });
}

/** The fields of a code: { negative, exponent, mantissa }, as unsigned integers. */
export function fields(code, f) {
  const magnitude = code & ((1n << BigInt(f.magnitude_bits)) - 1n);
  return {
    negative: (code & f.sign_bit) !== 0n,
    exponent: Number(magnitude >> BigInt(f.mantissa_bits)),
    mantissa: magnitude & (f.step - 1n),
  };
}

/** What a code is: "zero", "subnormal", "normal", "infinity" or "nan". */
export function kind(code, f) {
  const magnitude = code & ((1n << BigInt(f.magnitude_bits)) - 1n);
  if (f.nan === "fnuz" && code === f.nan_code) return "nan";
  if (magnitude > f.max_code) return magnitude === f.infinity_code ? "infinity" : "nan";
  if (magnitude >= f.step || !f.zero) return "normal";
  return magnitude === 0n || !f.subnormals ? "zero" : "subnormal";
}

// -- exact numbers ---------------------------------------------------------------------------------------------------

/** ±num/den · 2**exp as a Real. */
export function real(negative, num, den = 1n, exp = 0) {
  return { kind: "finite", negative, num, den, exp };
}

export const nan = () => NAN;
export const infinity = (negative) => ({ kind: "infinity", negative });

/** The value of a code. */
export function exact(code, f) {
  const { negative, exponent, mantissa } = fields(code, f);
  switch (kind(code, f)) {
    case "nan":
      return NAN;
    case "infinity":
      return infinity(negative);
    case "zero":
      return real(negative, 0n);
    case "subnormal":
      return real(negative, mantissa, 1n, f.emin - f.mantissa_bits);
    default:
      return real(negative, f.step + mantissa, 1n, exponent - f.bias - f.mantissa_bits);
  }
}

const view = new DataView(new ArrayBuffer(8));

/** A JavaScript number (a float64) as a Real. */
export function fromFloat(x) {
  view.setFloat64(0, x);
  const high = view.getUint32(0);
  const negative = high >>> 31 === 1;
  const field = (high >>> 20) & 0x7ff;
  if (field === 0x7ff) return Number.isNaN(x) ? NAN : infinity(negative);
  const fraction = (high & 0xfffff) * 2 ** 32 + view.getUint32(4);
  return real(negative, BigInt(field ? 2 ** 52 + fraction : fraction), 1n, (field || 1) - 1075);
}

/** The float64 nearest to a Real. */
export function toFloat(x) {
  if (x.kind === "nan") return NaN;
  if (x.kind === "infinity") return x.negative ? -Infinity : Infinity;
  view.setBigUint64(0, encodeReal(x, DOUBLE));
  return view.getFloat64(0);
}

/** How many bits a positive BigInt takes. */
export function bitLength(n) {
  const hex = n.toString(16);
  return 4 * hex.length + 28 - Math.clz32(parseInt(hex[0], 16));
}

/** floor(log2(x)) of a Real that is neither zero nor special. */
export function log2Floor(x) {
  const guess = bitLength(x.num) - bitLength(x.den); // right, or one too large
  const tooLarge = x.den !== 1n && (guess >= 0 ? x.num < x.den << BigInt(guess) : x.num << BigInt(-guess) < x.den);
  return guess - (tooLarge ? 1 : 0) + x.exp;
}

/** -1, 0 or 1: the order of two finite Reals (minus zero equals zero). */
export function compare(a, b) {
  const difference = subtract(a, b);
  return difference.num === 0n ? 0 : difference.negative ? -1 : 1;
}

/** a + b of two finite Reals. */
export function add(a, b) {
  const exp = Math.min(a.exp, b.exp);
  const scaled = (x, other) => (x.negative ? -1n : 1n) * (x.num << BigInt(x.exp - exp)) * other.den;
  const num = scaled(a, b) + scaled(b, a);
  return real(num < 0n, num < 0n ? -num : num, a.den * b.den, exp);
}

/** a - b of two finite Reals. */
export const subtract = (a, b) => add(a, negate(b));

/** a · b of two finite Reals. */
export function multiply(a, b) {
  return real(a.negative !== b.negative, a.num * b.num, a.den * b.den, a.exp + b.exp);
}

/** a / b of two finite Reals, b not zero. */
export function divide(a, b) {
  return real(a.negative !== b.negative, a.num * b.den, a.den * b.num, a.exp - b.exp);
}

/** x · 2**n. */
export const scale = (x, n) => (x.kind === "finite" ? { ...x, exp: x.exp + n } : x);
/** -x; the negative of NaN is NaN. */
export const negate = (x) => (x.kind === "nan" ? x : { ...x, negative: !x.negative });
/** |x|. */
export const absolute = (x) => ({ ...x, negative: false });

// -- rounding --------------------------------------------------------------------------------------------------------

// Does a number between two neighbors go to the larger one (in magnitude)? `rest`/`whole` is how far it lies between
// them, 0 < rest < whole; `odd`: the smaller neighbor's code is odd; `draw`: 64 random bits as a BigInt.
const GOES_UP = {
  nearest_even: ({ rest, whole, odd }) => 2n * rest > whole || (2n * rest === whole && odd),
  nearest_away: ({ rest, whole }) => 2n * rest >= whole,
  toward_zero: () => false,
  toward_positive: ({ negative }) => !negative,
  toward_negative: ({ negative }) => negative,
  stochastic: ({ rest, whole, draw }) => draw * whole < rest << 64n,
};

/** Whether a mode moves numbers of this sign toward zero only: such a mode never leaves the finite numbers. */
const turnsInward = (rounding, negative) =>
  rounding === "toward_zero" || rounding === (negative ? "toward_positive" : "toward_negative");

/**
 * Where a positive number lies on a format's grid, as if the grid went on beyond the largest value.
 * Returns { code, next, rest, whole }: the magnitude code at or below it, the one above, and rest/whole of the way to it.
 */
export function locate(x, f) {
  const e = Math.max(f.emin, Math.min(f.emax, log2Floor(x)));
  const inGap = !f.subnormals && log2Floor(x) < f.emin; // below the smallest normal number, where nothing else is
  if (inGap && !f.zero) return { code: 0n, next: 0n, rest: 0n, whole: 1n };
  const shift = x.exp - (inGap ? f.emin : e - f.mantissa_bits);
  const num = shift > 0 ? x.num << BigInt(shift) : x.num;
  const whole = shift < 0 ? x.den << BigInt(-shift) : x.den;
  const steps = num / whole;
  const rest = num - steps * whole;
  if (inGap) return { code: 0n, next: f.step, rest, whole };
  const code = BigInt(e - f.emin) * f.step + steps - (f.zero ? 0n : f.step);
  return { code, next: code + 1n, rest, whole };
}

/**
 * The code that a Real is rounded to.
 *
 * Options: rounding (one of ROUNDINGS), overflow ("ieee": the format's own rule; "saturate"), draw (64 random bits as a
 * BigInt, for "stochastic"), flushInput, flushOutput (subnormals become zero), nan (the number that NaN becomes in a
 * format that has none). Throws RangeError where a NaN has no code and no `nan` is given.
 */
export function encodeReal(x, f, options = {}) {
  const { rounding = "nearest_even", flushInput = false, flushOutput = false, draw = 0n } = options;
  const { negative } = x;
  if (x.kind === "nan") return encodeNan(f, options);
  if (flushInput && x.kind === "finite" && x.num !== 0n && log2Floor(x) < f.emin) x = real(negative, 0n);
  if (negative && !f.signed && !(x.kind === "finite" && x.num === 0n)) return encodeNan(f, options);
  if (x.kind === "infinity") return signedCode(beyond(f, options, false), negative, f);
  if (x.num === 0n) return signedCode(0n, negative, f);
  const at = locate(x, f);
  const up = at.rest !== 0n && GOES_UP[rounding]({ ...at, negative, draw, odd: (at.code & 1n) === 1n });
  let code = up ? at.next : at.code;
  if (code > f.max_code) code = beyond(f, options, turnsInward(rounding, negative));
  if (flushOutput && f.zero && code < f.step) code = 0n;
  return signedCode(code, negative, f);
}

/** Magnitude code of what lies beyond the largest value. */
function beyond(f, { overflow = "ieee" }, inward) {
  if (inward || overflow === "saturate") return f.max_code;
  return f.infinity_code ?? f.nan_code ?? f.max_code;
}

function encodeNan(f, options) {
  if (f.nan_code !== null) return f.nan_code;
  if (options.nan === undefined) throw new RangeError(`${f.title} has no NaN`);
  return encodeReal(fromFloat(options.nan), f, { ...options, nan: undefined });
}

function signedCode(magnitude, negative, f) {
  if (!negative || (magnitude === 0n && f.zero && !f.has_minus_zero) || magnitude === f.nan_code) return magnitude;
  return magnitude | f.sign_bit;
}

// IEEE double precision, only as the bridge to JavaScript's own numbers: it is theirs by definition.
const DOUBLE = describe({
  title: "float64",
  exponent_bits: 11,
  mantissa_bits: 52,
  bias: 1023,
  nan: "ieee",
  infinities: true,
  subnormals: true,
  signed: true,
  zero: true,
});

/** The code that a JavaScript number is rounded to; options as in encodeReal. */
export const encode = (x, f, options) => encodeReal(fromFloat(x), f, options);
/** The value of a code as a JavaScript number; exact wherever float64 holds it. */
export const decode = (code, f) => toFloat(exact(code, f));
/** The value that a JavaScript number is rounded to; options as in encodeReal. */
export const roundTo = (x, f, options) => decode(encode(x, f, options), f);

// -- neighbors -------------------------------------------------------------------------------------------------------

/** The code one step up (direction 1) or down (-1) from a code, past zero as well. NaN and the ends stay. */
export function neighbor(code, direction, f) {
  const what = kind(code, f);
  if (what === "nan") return code;
  const magnitude = code & ~f.sign_bit;
  const { negative } = fields(code, f);
  if (what === "zero") return direction > 0 ? firstCode(f) : f.signed ? f.sign_bit | firstCode(f) : code;
  if (negative === direction < 0) return magnitude < (f.infinity_code ?? f.max_code) ? code + 1n : code;
  if (magnitude > firstCode(f)) return code - 1n;
  if (f.zero) return negative && f.has_minus_zero ? f.sign_bit : 0n;
  return f.signed ? code ^ f.sign_bit : code; // no zero lies between the smallest number and its negative
}

/** Magnitude code of the smallest positive number. */
export const firstCode = (f) => (f.subnormals ? 1n : f.zero ? f.step : 0n);

/** The gap from a finite magnitude code to the next one above: the unit in the last place. */
export function ulp(magnitude, f) {
  if (!f.subnormals && f.zero && magnitude < f.step) return real(false, 1n, 1n, f.emin);
  const field = Math.max(Number(magnitude >> BigInt(f.mantissa_bits)), f.zero ? 1 : 0);
  return real(false, 1n, 1n, field - f.bias - f.mantissa_bits);
}

/**
 * The positive numbers that round (nearest, ties to even) to a finite magnitude code: { low, high, lowIn, highIn }; the
 * last two say whether the ends belong to it. Around zero the bin reaches as far down as up. Above the largest value the
 * grid is thought to go on by one step.
 */
export function bin(magnitude, f) {
  const x = exact(magnitude, f);
  const high = add(x, scale(ulp(magnitude, f), -1));
  const even = magnitude % 2n === 0n;
  if (x.num === 0n) return { low: negate(high), high, lowIn: true, highIn: true };
  const below = magnitude > 0n ? exact(magnitude - 1n, f) : real(false, 0n); // code 0 in a format without zero
  const tieGoesToZero = !f.subnormals && f.zero && magnitude === f.step;
  return { low: scale(add(x, below), -1), high, lowIn: even && !tieGoesToZero, highIn: even };
}
