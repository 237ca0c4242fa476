// Where rounding sends the numbers of a line: destinations, chances, bins. Pure functions, no DOM; all arithmetic is
// numerics.js.

import {
  absolute,
  add,
  bin,
  compare,
  encodeReal,
  exact,
  kind,
  locate,
  neighbor,
  negate,
  real,
  scale,
  subtract,
  ulp,
} from "./numerics.js";

export const ZERO = real(false, 0n);

// -- where numbers go ------------------------------------------------------------------------------------------------

const ALL_ONES = (1n << 64n) - 1n;

export const roundWith = (x, f, rounding, overflow, draw = 0n) =>
  encodeReal(x, f, { rounding, overflow, draw, nan: 0 });

/**
 * Where a Real goes: { code, other, chance }. For stochastic rounding of a number between two values `code` is the
 * one further from zero, `other` the nearer one, and `chance` (a Real) that of `code`; else `other` is null, the chance 1.
 */
export function outcome(x, f, rounding, overflow) {
  const code = roundWith(x, f, rounding, overflow);
  const other = rounding === "stochastic" ? roundWith(x, f, rounding, overflow, ALL_ONES) : code;
  if (other === code) return { code, other: null, chance: real(false, 1n) };
  const { rest, whole } = locate(absolute(x), f);
  return { code, other, chance: real(false, rest, whole) };
}

/**
 * How a number lies among the values of a format: "special" (infinite or NaN), "foreign" (negative, no sign),
 * "exact", "tie", "between", "above" (beyond the largest value) or "below" (nearer to zero than any value can be).
 */
export function situation(x, f) {
  if (x.kind !== "finite") return "special";
  if (x.num === 0n) return f.zero ? "exact" : "below";
  if (x.negative && !f.signed) return "foreign";
  if (compare(absolute(x), exact(f.max_code, f)) > 0) return "above";
  if (!f.zero && compare(absolute(x), exact(0n, f)) < 0) return "below";
  const { rest, whole } = locate(absolute(x), f);
  return rest === 0n ? "exact" : 2n * rest === whole ? "tie" : "between";
}

/** The gap of the format around a number, as a Real; beyond the largest value the last one. */
export function gapAt(x, f) {
  const down = roundWith(absolute(x), f, "toward_zero", "saturate");
  return ulp(down, f);
}

/**
 * The three answers to an overflow: { saturate, infinity, nan }, each a code, or null where the format has no such
 * code; `own` names the format's own. Below the border of overflow all are the same.
 */
export function overflowAnswers(x, f, rounding) {
  const answers = {
    saturate: roundWith(x, f, rounding, "saturate"),
    infinity: f.infinity_code === null ? null : roundWith(x, f, rounding, "ieee"),
    nan: f.nan_code === null ? null : roundWith(x, { ...f, infinity_code: null }, rounding, "ieee"),
  };
  return { ...answers, own: f.infinity_code !== null ? "infinity" : f.nan_code !== null ? "nan" : "saturate" };
}

// -- the line --------------------------------------------------------------------------------------------------------

/** The values of a format from low to high, none closer to the last than `apart`: [{ code, place, next }]; `next`
 * says that the one before is its neighbor. */
export function valuesBetween(f, low, high, apart) {
  const values = [];
  const from = (place) => roundWith(place, f, "toward_positive", "saturate");
  let code = from(low.negative && !f.signed ? ZERO : low);
  let next = false;
  for (;;) {
    const place = exact(code, f);
    if (compare(place, high) > 0) return values;
    if (compare(place, low) >= 0) values.push({ code, place, next });
    const neighboring = neighbor(code, 1, f);
    if (neighboring === code || kind(neighboring, f) === "infinity") return values;
    const apartEnough = compare(subtract(exact(neighboring, f), place), apart) >= 0;
    const after = apartEnough ? neighboring : from(add(place, apart));
    if (compare(exact(after, f), place) <= 0) return values; // nothing is left beyond the largest value
    [code, next] = [after, apartEnough];
  }
}

/**
 * The line between low and high cut where the destination changes: pieces { low, high, lowIn, highIn, code, other }
 * from left to right. With stochastic rounding a piece goes to two values: `other` is the one nearer to zero.
 */
export function pieces(f, values, low, high, rounding, overflow) {
  const marks = cuts(f, values, low, high);
  const found = [];
  const append = (from, to, isPoint, at) => {
    const { code, other } = outcome(at, f, rounding, overflow);
    const last = found.at(-1);
    if (last && last.code === code && last.other === other) Object.assign(last, { high: to, highIn: isPoint });
    else if (!isPoint || other === null)
      found.push({ low: from, high: to, lowIn: isPoint, highIn: isPoint, code, other });
  };
  marks.forEach((mark, i) => {
    append(mark, mark, true, mark);
    if (i + 1 < marks.length) append(mark, marks[i + 1], false, scale(add(mark, marks[i + 1]), -1));
  });
  return found.filter((piece) => compare(piece.low, piece.high) < 0);
}

/** Every place in the window where a destination can change: values, middles between neighbors, zero, the borders of
 * overflow, and the ends of the window. */
function cuts(f, values, low, high) {
  const border = bin(f.max_code, f).high;
  const last = add(exact(f.max_code, f), ulp(f.max_code, f));
  const middles = values.slice(1).map(({ place, next }, i) => next && scale(add(place, values[i].place), -1));
  const beyond = [border, last].flatMap((place) => [place, negate(place)]);
  const inside = [ZERO, ...beyond, ...values.map(({ place }) => place), ...middles, ...outerMiddles(f, values)]
    .filter((place) => place && compare(low, place) < 0 && compare(place, high) < 0)
    .sort(compare);
  return [low, ...inside, high].filter((place, i, all) => i === 0 || compare(all[i - 1], place) < 0);
}

/** The middles between the outermost values in the window and their neighbors outside it. */
function outerMiddles(f, values) {
  return [values[0], values.at(-1)].filter(Boolean).flatMap(({ code, place }) =>
    [-1, 1].map((direction) => {
      const next = exact(neighbor(code, direction, f), f);
      return next.kind === "finite" && scale(add(next, place), -1);
    }),
  );
}
