// What RoundingExplorer shows, and what each action makes of it. Pure functions, no DOM; all arithmetic is numerics.js.
//
// A state is { format, others, number, x, rounding, overflow, low, exp, zoom, seed, draws, ups }:
//   format, others   descriptions of formats (numerics.js: describe): the one on the line, and those below it
//   number, x        the number to round, as text and as a Real
//   low, exp         the window on the line: from low, a Real, 8 · 2**exp wide
//   zoom             how many times wider than 8 gaps the window is meant to be, as a power of two
//   draws, ups       of how many stochastic roundings how many went up; draw i takes random64At(seed, i)

import { exactText, readNumber } from "./decimal.js";
import { random64At } from "./draws.js";
import {
  ROUNDINGS,
  absolute,
  add,
  bin,
  compare,
  describe,
  divide,
  encodeReal,
  exact,
  fromFloat,
  kind,
  locate,
  log2Floor,
  neighbor,
  negate,
  real,
  scale,
  subtract,
  toFloat,
  ulp,
} from "./numerics.js";
import { fromSpec, specOf } from "./spec.js";

export const OVERFLOWS = ["ieee", "saturate"];
const WINDOW = 3; // log2 of the gaps in a window that is not zoomed
const [LEAST_ZOOM, MOST_ZOOM] = [-4, 9];
const EIGHTH = -3;
const SNAP = 4; // px from a value or a middle within which a dragged number goes there
const ZERO = real(false, 0n);

// -- where numbers go ------------------------------------------------------------------------------------------------

const ALL_ONES = (1n << 64n) - 1n;

const roundWith = (x, f, rounding, overflow, draw = 0n) => encodeReal(x, f, { rounding, overflow, draw, nan: 0 });

/**
 * Where a Real goes: { code, other, chance }. For stochastic rounding of a number between two values `code` is the one
 * further from zero, `other` the nearer one, and `chance` (a Real) that of `code`; else `other` is null and the chance 1.
 */
export function outcome(x, f, rounding, overflow) {
  const code = roundWith(x, f, rounding, overflow);
  const other = rounding === "stochastic" ? roundWith(x, f, rounding, overflow, ALL_ONES) : code;
  if (other === code) return { code, other: null, chance: real(false, 1n) };
  const { rest, whole } = locate(absolute(x), f);
  return { code, other, chance: real(false, rest, whole) };
}

/**
 * How a number lies among the values of a format: "special" (infinite or NaN), "foreign" (negative, in an unsigned one),
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

export const spanOf = ({ exp }) => real(false, 1n, 1n, exp + WINDOW);
export const highOf = (state) => add(state.low, spanOf(state));

/** The values of a format from low to high, none closer to the last than `apart`: [{ code, place, next }], where `next`
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
 * The line between low and high cut where the destination changes: pieces { low, high, lowIn, highIn, code, other } from
 * left to right. With stochastic rounding a piece goes to two values: `other` is the one nearer to zero.
 */
export function pieces(f, values, low, high, rounding, overflow) {
  const marks = cuts(f, values, low, high);
  const found = [];
  const append = (from, to, isPoint, at) => {
    const { code, other } = outcome(at, f, rounding, overflow);
    const last = found.at(-1);
    if (last && last.code === code && last.other === other) Object.assign(last, { high: to, highIn: isPoint });
    else if (!isPoint || other === null) found.push({ low: from, high: to, lowIn: isPoint, highIn: isPoint, code, other });
  };
  marks.forEach((mark, i) => {
    append(mark, mark, true, mark);
    if (i + 1 < marks.length) append(mark, marks[i + 1], false, scale(add(mark, marks[i + 1]), -1));
  });
  return found.filter((piece) => compare(piece.low, piece.high) < 0);
}

/** Every place in the window where a destination can change: values, the middles between neighbors, zero, the borders of
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

// -- actions: state in, state out ------------------------------------------------------------------------------------

/** A state from its parts; throws SyntaxError with a sentence for the reader where the text is no number. */
export function makeState({ format, others = [], number, rounding, overflow, zoom = 0, seed = 0 }) {
  const state = { format, others, rounding, overflow, zoom: clampZoom(zoom), seed, draws: 0, ups: 0 };
  return fit(withText(state, number));
}

const clampZoom = (zoom) => Math.max(LEAST_ZOOM, Math.min(MOST_ZOOM, zoom));

function withText(state, text) {
  const read = readNumber(text);
  if (read.bits === undefined) return { ...state, number: read.text, x: read.number, draws: 0, ups: 0 };
  const { bits, title } = state.format;
  const width = read.bits.toString(2).length;
  if (width > bits) throw new SyntaxError(`${text.trim()} has ${width} bits; ${title} takes at most ${bits}.`);
  return withNumber(state, exact(read.bits, state.format));
}

const withNumber = (state, x) => ({ ...state, x, number: exactText(x), draws: 0, ups: 0 });

/** The window laid around x, as wide as the zoom says. */
function fit(state) {
  const { x, format, zoom } = state;
  if (x.kind !== "finite") return { ...state, low: ZERO, exp: 0 };
  const exp = Math.min(log2Floor(gapAt(x, format)) + zoom, format.emax);
  return { ...state, exp, low: around(x, exp) };
}

/** Where a window with x near its middle begins: on a multiple of an eighth of a gap, so that it needs few digits. */
const around = (x, exp) => subtract(multipleBelow(x, real(false, 1n, 1n, exp)), real(false, 1n, 1n, exp + WINDOW - 1));

/** The window moved or fitted again, if x has left it or its gaps no longer suit it. */
function follow(state) {
  const { x, low, exp, format } = state;
  const size = log2Floor(gapAt(x, format));
  if (size > exp + WINDOW - 2 || size < exp - MOST_ZOOM) return fit(state);
  const part = placeIn(state, x);
  return part < 0.04 || part > 0.96 ? { ...state, low: around(x, exp) } : { ...state, low };
}

/** How far along the window a Real lies: 0 at its left end, 1 at its right. */
export const placeIn = (state, x) => toFloat(divide(subtract(x, state.low), spanOf(state)));

export const typeNumber = (state, text) => fit(withText(state, text));
export const setNumber = (state, x) => fit(withNumber(state, x));
export const setMode = (state, rounding) => ({ ...state, rounding });
export const setOverflow = (state, overflow) => ({ ...state, overflow, draws: 0, ups: 0 });
export const setFormat = (state, format) =>
  fit({ ...state, format, draws: 0, ups: 0, others: state.others.filter((f) => specOf(f) !== specOf(format)) });

/** A format below the line, or there no longer. */
export function toggleOther(state, f) {
  const without = state.others.filter((other) => other.name !== f.name);
  return { ...state, others: without.length < state.others.length ? without : [...state.others, f] };
}

/**
 * x dragged to a part (0 to 1) of the window `width` px wide: to a multiple of a fraction of the gap that can be seen, and
 * to a value or a middle that is near, so that both can be met exactly.
 */
export function drag(state, part, width) {
  const reach = Math.max(0, Math.min(1, part));
  const there = add(state.low, multiplyPart(spanOf(state), reach));
  const gap = gapAt(there, state.format);
  const pixels = toFloat(divide(gap, spanOf(state))) * width;
  const steps = pixels < 5 ? null : Math.min(4, Math.floor(Math.log2(pixels / 2)) - 1);
  const step = steps === null ? scale(spanOf(state), -10) : scale(gap, -steps);
  const half = nearestMultiple(there, scale(gap, -1));
  const away = toFloat(divide(absolute(subtract(half, there)), spanOf(state))) * width;
  return withNumber(state, pixels > 4 * SNAP && away < SNAP ? half : nearestMultiple(there, step));
}

const multiplyPart = (span, part) => ({ ...fromFloat(part), exp: fromFloat(part).exp + span.exp });

/** The window brought back around x after a drag to its edge. */
export const settle = (state) => (state.x.kind === "finite" ? follow(state) : state);

/** x moved by n eighths of a gap, to multiples of an eighth. */
export function nudge(state, n) {
  if (state.x.kind !== "finite") return state;
  const step = scale(gapAt(state.x, state.format), EIGHTH);
  const size = real(n < 0, BigInt(Math.abs(n)), 1n, step.exp);
  const on = multipleBelow(state.x, step);
  const start = n < 0 && compare(on, state.x) < 0 ? add(on, step) : on; // the first step ends on a multiple
  return follow(withNumber(state, add(start, size)));
}

/** x doubled (n = 1) or halved (n = -1); from zero to the smallest value. */
export function scaleBy(state, n) {
  const { x, format } = state;
  if (x.kind !== "finite") return state;
  if (x.num === 0n) return n > 0 ? setNumber(state, exact(neighbor(0n, 1, format), format)) : state;
  return setNumber(state, scale(x, n));
}

export const flipSign = (state) => setNumber(state, negate(state.x));

/** x moved to the next middle between two neighbors, above (1) or below (-1). */
export function toTie(state, direction) {
  const { x, format: f } = state;
  if (x.kind !== "finite") return state;
  const at = (place, way) => roundWith(place, f, way > 0 ? "toward_positive" : "toward_negative", "saturate");
  for (let from = x, tries = 0; tries < 4; tries += 1) {
    const outer = at(from, direction);
    const inner = compare(exact(outer, f), from) === 0 ? outer : at(from, -direction);
    const end = inner === outer ? neighbor(outer, direction, f) : outer;
    const [a, b] = [exact(inner, f), exact(end, f)];
    if (b.kind !== "finite" || compare(a, b) === 0) return state;
    const middle = scale(add(a, b), -1);
    if (compare(middle, x) === direction) return follow(withNumber(state, middle));
    from = b;
  }
  return state;
}

/** The window widened (n = 1) or narrowed (n = -1) by a factor of two around x. */
export function zoomBy(state, n) {
  const zoom = clampZoom(state.zoom + n);
  if (zoom === state.zoom || state.x.kind !== "finite") return state;
  const exp = state.exp + n;
  if (exp > state.format.emax) return state; // the whole format is in view
  const part = Math.max(0.1, Math.min(0.9, placeIn(state, state.x)));
  const left = multiplyPart(real(false, 1n, 1n, exp + WINDOW), part);
  const low = multipleBelow(subtract(state.x, left), real(false, 1n, 1n, exp - 4));
  return { ...state, zoom, exp, low };
}

/** The places worth a visit, in the order of the line. */
export const PLACES = ["zero", "smallest normal", "one", "largest value"];

/** x moved to one of PLACES, a little beside it. */
export function visit(state, place) {
  const f = state.format;
  const [largest, normal] = [f.max_code, f.zero ? (f.step < f.max_code ? f.step : f.max_code) : 0n];
  const quarter = (code) => scale(ulp(code, f), -2);
  const spots = {
    zero: () => quarter(0n),
    "smallest normal": () => subtract(exact(normal, f), quarter(0n)),
    one: () => add(real(false, 1n), scale(gapAt(real(false, 1n), f), -2)),
    "largest value": () => add(exact(largest, f), quarter(largest)),
  };
  return setNumber({ ...state, zoom: Math.max(state.zoom, 0) }, spots[place]());
}

/** Another hundred stochastic roundings of x. */
export function drawMore(state, count = 100) {
  const { x, format, overflow, seed, draws } = state;
  const { code } = outcome(x, format, "stochastic", overflow);
  let ups = state.ups;
  for (let i = draws; i < draws + count; i += 1) {
    const draw = random64At(BigInt(seed), BigInt(i));
    if (roundWith(x, format, "stochastic", overflow, draw) === code) ups += 1;
  }
  return { ...state, draws: draws + count, ups };
}

/** The mean of the numbers drawn, as a Real; null where one of them is infinite or NaN, or none was drawn. */
export function meanOfDraws(state) {
  const { code, other } = outcome(state.x, state.format, "stochastic", state.overflow);
  const [up, down] = [code, other ?? code].map((c) => exact(c, state.format));
  if (!state.draws || up.kind !== "finite" || down.kind !== "finite") return null;
  const times = (value, n) => ({ ...value, num: value.num * BigInt(n) });
  const sum = add(times(up, state.ups), times(down, state.draws - state.ups));
  return divide(sum, real(false, BigInt(state.draws)));
}

const nearestMultiple = (x, step) => multipleBelow(add(x, scale(step, -1)), step);

/** The largest multiple of a positive step that is not above x. */
export function multipleBelow(x, step) {
  const { num, den, exp, negative } = divide(x, step);
  const [top, bottom] = exp < 0 ? [num, den << BigInt(-exp)] : [num << BigInt(exp), den];
  const n = negative ? -((top + bottom - 1n) / bottom) : top / bottom;
  return { ...step, negative: n < 0n, num: (n < 0n ? -n : n) * step.num };
}

// -- links -----------------------------------------------------------------------------------------------------------

const nameOf = (f, named) => (named.some((n) => n.name === f.name && specOf(n) === specOf(f)) ? f.name : specOf(f));

/** The state as the fragment of a link, without #: round/fp8_e4m3fn/0.3/nearest_even/ieee/0/fp16+bf16. */
export function toFragment(state, named) {
  const { format, number, rounding, overflow, zoom, others } = state;
  const below = others.map((f) => nameOf(f, named)).join("+");
  return ["round", nameOf(format, named), number, rounding, overflow, zoom, below].map(encodeURIComponent).join("/");
}

/** The state that a fragment means, on top of another one; null where it means none. */
export function fromFragment(fragment, named, state) {
  try {
    const [word, name, number, rounding, overflow, zoom, below, ...more] = fragment.split("/").map(decodeURIComponent);
    const formatOf = (n) => named.find((f) => f.name === n) ?? fromSpec(n);
    const formats = [name, ...(below ? below.split("+") : [])].map(formatOf);
    const known = word === "round" && ROUNDINGS.includes(rounding) && OVERFLOWS.includes(overflow);
    if (!known || more.length || formats.includes(null) || !number || !/^-?\d$/.test(zoom)) return null;
    const [format, ...others] = formats.map((f) => describe(f));
    return makeState({ ...state, format, others, number, rounding, overflow, zoom: Number(zoom) });
  } catch {
    return null; // some other fragment of the page, or a mistyped one: nothing to show
  }
}
