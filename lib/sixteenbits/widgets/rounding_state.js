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
  compare,
  describe,
  divide,
  exact,
  fromFloat,
  log2Floor,
  neighbor,
  negate,
  real,
  scale,
  subtract,
  toFloat,
  ulp,
} from "./numerics.js";
import { ZERO, gapAt, outcome, roundWith } from "./rounding_bins.js";
import { fromSpec, specOf } from "./spec.js";

export const OVERFLOWS = ["ieee", "saturate"];
const WINDOW = 3; // log2 of the gaps in a window that is not zoomed
const [LEAST_ZOOM, MOST_ZOOM] = [-4, 9];
const EIGHTH = -3;
const SNAP = 4; // px from a value or a middle within which a dragged number goes there

export const spanOf = ({ exp }) => real(false, 1n, 1n, exp + WINDOW);
export const highOf = (state) => add(state.low, spanOf(state));

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
 * x dragged to a part (0 to 1) of the window `width` px wide: to a multiple of a fraction of the gap that can be seen,
 * and to a value or a middle that is near, so that both can be met exactly.
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
