// Numbers as people write them: text to exact numbers and back, without a rounding in between. No DOM.

import { absolute, bin, bitLength, compare, divide, exact, infinity, multiply, nan, real } from "./numerics.js";

// Beyond this, digits would fill pages and minutes; the widest format that the explorers show ends near 10**±10000.
export const MAX_EXPONENT = 20000;
const MAX_TEXT = 2000;

export const ACCEPTED =
  "a decimal (0.1, -6e-8), a fraction (1/3), a power or product (2^-24, 3*2^-10), inf, nan, " +
  "or the bits as 0x3c00 or 0b0011";

// -- reading ---------------------------------------------------------------------------------------------------------

/**
 * What a text means: { bits: BigInt } for a bit pattern (0x…, 0b…), { number: Real, text } for a number, the text in a
 * spelling that Python reads as well. Throws SyntaxError with a sentence for the reader.
 */
export function readNumber(given) {
  const text = SPELLINGS.reduce((t, [from, to]) => t.replaceAll(from, to), given.trim()).replace(
    /\s*([*/^])\s*/g,
    "$1",
  );
  if (text.length > MAX_TEXT) throw new SyntaxError(`That is too long: at most ${MAX_TEXT} characters are read.`);
  if (/^(0x[0-9a-f]+|0b[01 ]+)$/i.test(text)) return { bits: BigInt(text.replaceAll(" ", "").toLowerCase()) };
  const word = /^([+-]?)(inf(?:inity)?|nan)$/i.exec(text);
  if (!word) return { number: readProduct(text), text };
  return { number: word[2].toLowerCase() === "nan" ? nan() : infinity(word[1] === "-"), text };
}

const SPELLINGS = [
  ["−", "-"],
  ["–", "-"],
  ["_", ""],
  ["×", "*"],
  ["·", "*"],
  ["**", "^"],
  ["∞", "inf"],
];

// A product of factors joined by * and /; each a decimal or a power of one. A sign belongs to its factor.
function readProduct(text) {
  const parts = text.split(/([*/])/); // factor, operator, factor, ...
  let product = readFactor(parts[0], text);
  for (let i = 1; i < parts.length; i += 2) {
    const factor = readFactor(parts[i + 1], text);
    if (parts[i] === "/" && factor.num === 0n) throw new SyntaxError("Division by zero.");
    product = parts[i] === "/" ? divide(product, factor) : multiply(product, factor);
  }
  return product;
}

const FACTOR = /^([+-]?)(\d+\.?\d*|\.\d+)(?:e([+-]?\d+))?(?:\^([+-]?\d+))?$/i;

function readFactor(text, whole) {
  const match = FACTOR.exec(text);
  if (!match) throw new SyntaxError(`“${shorten(whole)}” is not a number that is read here. Accepted: ${ACCEPTED}.`);
  const [, sign, digits, exponent = "0", power = "1"] = match;
  if (Math.abs(exponent) > MAX_EXPONENT || Math.abs(power) > MAX_EXPONENT) {
    throw new SyntaxError(`Exponents are read up to ${MAX_EXPONENT}.`);
  }
  return { ...powerOf(readDecimal(digits, Number(exponent)), Number(power)), negative: sign === "-" };
}

/** A text cut to n characters. */
export const shorten = (text, n = 24) => (text.length > n ? text.slice(0, n - 1) + "…" : text);

/** digits · 10**exponent; a power of ten is 5**n · 2**n, so half of it goes into the exponent of two. */
function readDecimal(digits, exponent) {
  const [whole, fraction = ""] = digits.split(".");
  const ten = exponent - fraction.length;
  const num = BigInt(whole + fraction);
  return ten < 0 ? real(false, num, 5n ** BigInt(-ten), ten) : real(false, num * 5n ** BigInt(ten), 1n, ten);
}

function powerOf(x, n) {
  if (n === 1) return x;
  if (n < 0 && x.num === 0n) throw new SyntaxError("Division by zero.");
  if (bitLength(x.num > x.den ? x.num : x.den) * Math.abs(n) > 8 * MAX_EXPONENT) {
    throw new SyntaxError("That power is too large to write out.");
  }
  const size = BigInt(Math.abs(n));
  const [num, den] = n < 0 ? [x.den, x.num] : [x.num, x.den];
  return real(false, num ** size, den ** size, x.exp * n);
}

// -- writing ---------------------------------------------------------------------------------------------------------

/** The word for zero, infinity and NaN; null for every other number. */
function wordFor(x) {
  if (x.kind === "nan") return "nan";
  if (x.kind === "finite" && x.num !== 0n) return null;
  return (x.negative ? "-" : "") + (x.kind === "infinity" ? "inf" : "0");
}

/** All decimal digits of a binary number (den 1): "0.0999755859375", "-inf", "nan", "-0". */
export function exactDecimal(x) {
  if (wordFor(x)) return wordFor(x);
  const { num, places } = decimalInteger(x);
  return (x.negative ? "-" : "") + placePoint(num.toString(), places);
}

/** num · 10**-places. */
function decimalInteger({ num, exp }) {
  if (exp >= 0) return { num: num << BigInt(exp), places: 0 };
  const zeros = Math.min(-exp, trailingZeros(num)); // 2 · 2**-3 needs two places, not three
  return { num: (num >> BigInt(zeros)) * 5n ** BigInt(-exp - zeros), places: -exp - zeros };
}

function trailingZeros(n) {
  return bitLength(n & -n) - 1;
}

function placePoint(digits, places) {
  const padded = digits.padStart(places + 1, "0");
  const fraction = places ? padded.slice(-places) : "";
  return padded.slice(0, padded.length - places) + (fraction ? "." + fraction : "");
}

/** The exact value of a binary number as a reader would type it: a decimal, or n*2^e where that is shorter. */
export function exactText(x) {
  if (wordFor(x)) return wordFor(x);
  const zeros = trailingZeros(x.num);
  const [num, exp] = [x.num >> BigInt(zeros), x.exp + zeros];
  const decimal = -100 < exp && exp < 60 ? exactDecimal({ ...x, num, exp }) : "";
  if (decimal && decimal.length <= (num < 1000n ? 16 : 32)) return decimal;
  return (x.negative ? "-" : "") + (num === 1n ? "" : `${num}*`) + `2^${exp}`;
}

/** About `digits` digits of a number, rounded, for reading only: 0.000244, 12.3, 6.55e4. */
export function rounded(x, digits) {
  if (wordFor(x)) return wordFor(x);
  const exponent = decimalExponent(x) - digits + 1;
  const { num, den } = timesTen(x, -exponent);
  return notation((2n * num + den) / (2n * den), exponent, x.negative, digits);
}

/** All digits of a binary number where they are few, else the first ones and an ellipsis: nothing is rounded. */
export function brief(x, characters = 16) {
  if (wordFor(x)) return wordFor(x);
  const exponent = decimalExponent(x);
  if (Math.abs(exponent) <= characters && Math.abs(x.exp) <= 4 * characters) {
    const all = exactDecimal(x);
    if (all.length <= characters) return all;
  }
  const plain = exponent >= -3 && exponent < characters - 3;
  const digits = Math.max(2, characters - (plain ? 3 + Math.max(0, -exponent) : 4 + String(exponent).length));
  const { num, den } = timesTen(x, digits - 1 - exponent);
  const text = (num / den).toString();
  const sign = x.negative ? "-" : "";
  if (num % den === 0n) return notation(num / den, exponent - digits + 1, x.negative);
  if (plain && exponent < digits) return `${sign}${placePoint(text, digits - 1 - exponent)}…`;
  return `${sign}${text[0]}.${text.slice(1)}…e${exponent}`;
}

/** 2^-14 as it is printed: 2⁻¹⁴. */
export const powerOfTwo = (n) => "2" + String(n).replace(/./g, (c) => SUPERSCRIPTS[c]);
const SUPERSCRIPTS = { "-": "⁻", 0: "⁰", 1: "¹", 2: "²", 3: "³", 4: "⁴", 5: "⁵", 6: "⁶", 7: "⁷", 8: "⁸", 9: "⁹" };

/**
 * The shortest decimal that rounds to this code and no other (nearest, ties to even); of several, the nearest to the
 * value, and of two equally near the one with the even last digit. Plain notation from 1e-4 up to 1e16, else like 6e-8.
 */
export function shortest(code, f) {
  const x = exact(code, f);
  if (wordFor(x)) return wordFor(x);
  const { low, high, lowIn, highIn } = bin(code & ~f.sign_bit, f);
  const size = absolute(x);
  const fits = (candidate) => {
    const [a, b] = [compare(low, candidate), compare(candidate, high)];
    return (a < 0 || (lowIn && a === 0 && low.num !== 0n)) && (b < 0 || (highIn && b === 0));
  };
  const first = decimalExponent(size);
  for (let exponent = first; ; exponent -= 1) {
    const scaled = timesTen(size, -exponent);
    const floor = scaled.num / scaled.den;
    const past = 2n * (scaled.num - floor * scaled.den) - scaled.den; // the half
    const upFirst = past > 0n || (past === 0n && floor % 2n === 1n);
    const found = (upFirst ? [floor + 1n, floor] : [floor, floor + 1n]).find((n) => fits(tenTo(n, exponent)));
    if (found !== undefined) return notation(found, exponent, x.negative);
  }
}

/** n · 10**exponent as a Real. */
const tenTo = (n, exponent) =>
  exponent < 0
    ? real(false, n, 5n ** BigInt(-exponent), exponent)
    : real(false, n * 5n ** BigInt(exponent), 1n, exponent);

/** |x| · 10**power as a fraction { num, den } without a power of two beside it. */
function timesTen(x, power) {
  const five = 5n ** BigInt(Math.abs(power));
  let [num, den] = power < 0 ? [x.num, x.den * five] : [x.num * five, x.den];
  const exp = x.exp + power;
  if (exp < 0) den <<= BigInt(-exp);
  else num <<= BigInt(exp);
  return { num, den };
}

/** floor(log10(|x|)) of a finite Real that is not zero. */
export function decimalExponent(x) {
  const log2 = bitLength(x.num) - bitLength(x.den) + x.exp; // within one of the truth
  for (let guess = Math.floor((log2 + 1) * Math.LOG10E * Math.LN2) + 1; ; guess -= 1) {
    const { num, den } = timesTen(x, -guess);
    if (num >= den) return guess;
  }
}

/** n · 10**exponent, plainly from 1e-4 up to 10**most, otherwise as 6e-8. */
function notation(n, exponent, negative, most = 16) {
  let digits = n.toString();
  while (digits.length > 1 && digits.endsWith("0")) [digits, exponent] = [digits.slice(0, -1), exponent + 1];
  const size = digits.length - 1 + exponent; // floor(log10)
  const sign = negative ? "-" : "";
  if (size < -4 || size >= most) {
    return `${sign}${digits[0]}${digits.length > 1 ? "." + digits.slice(1) : ""}e${size}`;
  }
  return sign + (exponent >= 0 ? digits + "0".repeat(exponent) : placePoint(digits, -exponent));
}
