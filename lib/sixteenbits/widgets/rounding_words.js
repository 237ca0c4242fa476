// RoundingExplorer in words: where a number lies, and where each mode and format sends it. No DOM.

import { brief, powerOfTwo, rounded, shorten } from "./decimal.js";
import {
  absolute,
  compare,
  divide,
  encodeReal,
  exact,
  kind,
  log2Floor,
  real,
  scale,
  add,
  multiply,
  subtract,
} from "./numerics.js";
import { gapAt, outcome, overflowAnswers, situation } from "./rounding_bins.js";

export const MODE_NAMES = {
  nearest_even: "to nearest, ties to even",
  nearest_away: "to nearest, ties away from zero",
  toward_zero: "toward zero",
  toward_positive: "toward +∞",
  toward_negative: "toward −∞",
  stochastic: "stochastic",
};

/** A value as it is shown: "0.3125", "−0", "∞", "NaN"; with digits enough to tell it from its neighbors. */
export function show(code, f, characters = 14) {
  const text = brief(exact(code, f), Math.max(characters, Math.ceil(f.mantissa_bits / 3.32) + 8));
  return { nan: "NaN", inf: "∞", "-inf": "−∞" }[text] ?? text.replaceAll("-", "−");
}

/** The mode as an adverb: "rounded …". */
const roundedHow = (rounding) => (rounding === "stochastic" ? "stochastically" : MODE_NAMES[rounding]);

/** The text of the number that is held, for a sentence. */
const nameOfNumber = (state) =>
  shorten(state.number, 24).replaceAll("-", "−").replace("inf", "∞").replace("nan", "NaN");

export const hexOf = (code, f) => "0x" + code.toString(16).padStart(Math.ceil(f.bits / 4), "0");

/** A chance in percent: "60 %", "12.5 %", "< 0.01 %". */
export function percentOf(chance) {
  if (chance.num === 0n) return "0 %";
  const percent = multiply(chance, real(false, 100n));
  return compare(percent, real(false, 1n, 100n)) < 0 ? "< 0.01 %" : `${rounded(percent, 3)} %`;
}

export const complement = (chance) => subtract(real(false, 1n), chance);

/** Where an outcome goes: "0.3125", or "0.3125 (60 %) or 0.28125 (40 %)". */
export function sayTarget({ code, other, chance }, f, characters = 14) {
  if (other === null) return show(code, f, characters);
  const part = (c, p) => `${show(c, f, characters)} (${percentOf(p)})`;
  return `${part(code, chance)} or ${part(other, complement(chance))}`;
}

/** How far x moves: "up 0.4 ulp", "stays", or nothing where that cannot be said. */
export function sayMove(x, { code, other }, f) {
  const y = exact(code, f);
  if (other !== null || x.kind !== "finite" || y.kind !== "finite") return "";
  const move = subtract(y, x);
  if (move.num === 0n) return "stays";
  return `${move.negative ? "down" : "up"} ${rounded(divide(absolute(move), gapAt(x, f)), 3)} ulp`;
}

/** In a sentence or two: what lies around x, and what kind of case this is. */
export function saySituation(state) {
  const { x, format: f, rounding, overflow } = state;
  const name = nameOfNumber(state);
  const is = situation(x, f);
  const [below, above] = ["toward_negative", "toward_positive"].map((mode) => outcome(x, f, mode, "saturate").code);
  const value = (code) => show(code, f, 18);
  switch (is) {
    case "special":
      return `${name} has no place on a line. The format and the overflow rule say what becomes of it, in every mode.`;
    case "foreign":
      return `${f.title} has no sign bit, so no negative number.`;
    case "exact":
      return `${name} is a value of ${f.title}: no mode moves it.`;
    case "below":
      return `${name} is smaller than the smallest value of ${f.title}, ${show(0n, f)}, and ${f.title} has no zero.`;
    case "above":
      return sayOverflow(x, f, name, rounding, overflow);
    default:
      return (
        `${name} lies between ${value(below)} and ${value(above)}, which are ${gapName(below, above, f)} apart. ` +
        sayMiddle(state, is, below, above)
      );
  }
}

function gapName(below, above, f) {
  const gap = subtract(exact(above, f), exact(below, f));
  const size = log2Floor(gap);
  return compare(gap, real(false, 1n, 1n, size)) === 0 ? powerOfTwo(size) : brief(gap, 8);
}

function sayMiddle({ x, format: f }, is, below, above) {
  const inWords = (code) => show(code, f, 18);
  if (is === "tie") {
    const even = encodeReal(x, f);
    const odd = even === below ? above : below;
    return (
      `A tie: exactly halfway. ${inWords(even)} has the even code ${hexOf(even, f)}, ` +
      `${inWords(odd)} the odd one ${hexOf(odd, f)}.`
    );
  }
  const [a, b] = [exact(below, f), exact(above, f)];
  const way = divide(subtract(x, a), subtract(b, a));
  const middle = scale(add(a, b), -1);
  return `It is ${percentOf(way)} of the way up; the middle is ${brief(middle, 18).replaceAll("-", "−")}.`;
}

function sayOverflow(x, f, name, rounding, overflow) {
  const largest = show(f.max_code | (x.negative ? f.sign_bit : 0n), f);
  const { code, other, chance } = outcome(x, f, rounding, overflow);
  const stays = other === null && kind(code, f) !== "infinity" && kind(code, f) !== "nan";
  const start = `${name} is beyond ${largest}, the largest value of ${f.title}${x.negative ? " on this side" : ""}.`;
  if (overflow === "saturate") return `${start} Saturating conversion stops there.`;
  if (other !== null) return `${start} It overflows with a chance of ${percentOf(chance)}.`;
  if (!stays) return `${start} Rounded ${roundedHow(rounding)}, it overflows.`;
  const has = f.infinity_code ?? f.nan_code;
  return has === null
    ? `${start} The format has no code for infinity or NaN.`
    : `${start} Rounded ${roundedHow(rounding)}, it becomes that.`;
}

/** The three answers to an overflow: [{ key, title, text, own, same }]. */
export function overflowCards(state) {
  const { x, format: f, rounding } = state;
  const answers = overflowAnswers(x, f, rounding);
  const lacking = { infinity: "no infinity in this format", nan: "no NaN in this format" };
  return ["saturate", "infinity", "nan"].map((key) => ({
    key,
    title: { saturate: "saturate", infinity: "go to infinity", nan: "become NaN" }[key],
    text: answers[key] === null ? lacking[key] : show(answers[key], f, 12),
    missing: answers[key] === null,
    own: answers.own === key,
  }));
}

/** Whether the overflow rules disagree about x. */
export function overflows(state) {
  const { saturate, infinity, nan } = overflowAnswers(state.x, state.format, state.rounding);
  return [infinity, nan].some((code) => code !== null && code !== saturate);
}

/** What a screen reader is told after each change. */
export function sayAloud(state) {
  const { x, format, rounding, overflow } = state;
  const name = nameOfNumber(state);
  const tie = situation(x, format) === "tie" ? ", a tie" : "";
  const target = sayTarget(outcome(x, format, rounding, overflow), format, 18);
  return `${name}${tie}, rounded ${roundedHow(rounding)} in ${format.title}: ${target}`;
}
