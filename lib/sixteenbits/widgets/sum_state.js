// What SumExplorer shows, and what each action makes of it. Pure functions, no DOM; all arithmetic is sums.js.
//
// A state is { format, data, way, length, view }: names, and how many terms. What does not change is a `Bench`: formats,
// ways and terms from Python, and the sums that were made so far.

import { absolute, compare, describe, divide, negate, toFloat } from "./numerics.js";
import { exactSums, idle, plus, sumsOf, termsIn } from "./sums.js";

export const VIEWS = ["error", "sum"];

/** 1, 2, 3, 4, 6, 8, 11, 16, … n: two lengths in each doubling. */
export function lengthsUpTo(n) {
  const found = [];
  for (let half = 0; 2 ** (half / 2) < n; half += 1) {
    const length = Math.round(2 ** (half / 2));
    if (length !== found[found.length - 1]) found.push(length);
  }
  return [...found, n];
}

/** The tables from Python, and a memory for what is computed from them. */
export function makeBench({ formats, ways, sets, seed }) {
  return {
    formats: formats.map(describe),
    ways: ways.map((way) => ({ ...way, format: way.format && describe(way.format) })),
    sets: sets.map((set) => ({ ...set, lengths: lengthsUpTo(set.steps.length) })),
    seed: BigInt(seed),
    memory: new Map(),
  };
}

const named = (table, name) => table.find((row) => row.name === name) ?? table[0];
export const formatOf = (bench, state) => named(bench.formats, state.format);
export const wayOf = (bench, state) => named(bench.ways, state.way);
export const setOf = (bench, state) => named(bench.sets, state.data);

/** A state in which every name exists and the length is one of those that are computed. */
export function settled(bench, state) {
  const set = setOf(bench, state);
  const nearest = (best, n) => (Math.abs(Math.log(n / state.length)) < Math.abs(Math.log(best / state.length)) ? n : best);
  return {
    format: formatOf(bench, state).name,
    data: set.name,
    way: wayOf(bench, state).name,
    length: set.lengths.reduce(nearest),
    view: VIEWS.includes(state.view) ? state.view : VIEWS[0],
  };
}

function remembered(bench, key, compute) {
  if (!bench.memory.has(key)) bench.memory.set(key, compute());
  return bench.memory.get(key);
}

const terms = (bench, state) =>
  remembered(bench, `terms ${state.format} ${state.data}`, () => termsIn(setOf(bench, state), formatOf(bench, state)));

/** The exact sums of the rounded terms, one for each length: [{ total, size }]. */
export const exactly = (bench, state) =>
  remembered(bench, `exact ${state.format} ${state.data}`, () =>
    exactSums(terms(bench, state), setOf(bench, state).lengths),
  );

/** The sums of a way, one for each length; null if they are not made yet and `make` is false. */
export function computed(bench, state, way, make = true) {
  const key = `sums ${state.format} ${state.data} ${way.name}`;
  if (!make && !bench.memory.has(key)) return null;
  return remembered(bench, key, () =>
    sumsOf(terms(bench, state), setOf(bench, state).lengths, way, formatOf(bench, state), bench.seed),
  );
}

/** The first way whose sums are still missing. */
export const missing = (bench, state) => bench.ways.find((way) => computed(bench, state, way, false) === null);

/** How far a sum is from the exact one, as a part of the sum of the sizes; infinite for infinity and NaN. */
export function errorOf(sum, { total, size }) {
  if (sum.kind !== "finite") return Infinity;
  const difference = plus(sum, negate(total));
  return difference.num === 0n ? 0 : toFloat(divide(absolute(difference), size));
}

/** A curve: [{ n, y }], y the error or the size of the sum, by the view; null if it is not computed yet. */
export function curve(bench, state, way) {
  const sums = computed(bench, state, way, false);
  if (!sums) return null;
  const exact = exactly(bench, state);
  return setOf(bench, state).lengths.map((n, i) => ({
    n,
    y: state.view === "sum" ? toFloat(absolute(sums[i])) : errorOf(sums[i], exact[i]),
  }));
}

/** The curve of the exact sum. */
export const exactCurve = (bench, state) =>
  exactly(bench, state).map(({ total }, i) => ({ n: setOf(bench, state).lengths[i], y: toFloat(absolute(total)) }));

/** The unit roundoff of a format. */
export const roundoff = (f) => 2 ** -(f.mantissa_bits + 1);

/** Higham's bound for n terms one after the other, and its random-walk counterpart: accumulate.py says where from. */
export const bounds = (f, n) => ({
  worst: (n - 1) * roundoff(f) < 1 ? ((n - 1) * roundoff(f)) / (1 - (n - 1) * roundoff(f)) : Infinity,
  walk: Math.sqrt(n - 1) * roundoff(f),
});

/** Everything about the chosen sum: { n, sum, exact, error, idle }. */
export function reading(bench, state, way = wayOf(bench, state)) {
  const { lengths } = setOf(bench, state);
  const i = lengths.indexOf(state.length);
  const sums = computed(bench, state, way);
  const exact = exactly(bench, state)[i];
  const key = `idle ${state.format} ${state.data} ${way.name} ${state.length}`;
  const f = formatOf(bench, state);
  return {
    n: state.length,
    sum: sums[i],
    exact: exact.total,
    error: errorOf(sums[i], exact),
    right: sums[i].kind === "finite" && compare(sums[i], exact.total) === 0,
    idle: remembered(bench, key, () => idle(terms(bench, state), state.length, way, f, bench.seed)),
  };
}

// -- actions ---------------------------------------------------------------------------------------------------------

export function moveLength(bench, state, steps) {
  const { lengths } = setOf(bench, state);
  const i = lengths.indexOf(state.length) + steps;
  return { ...state, length: lengths[Math.max(0, Math.min(lengths.length - 1, i))] };
}

/** bf16/pairwise/2/1024/error: the set by its place, since its name may hold anything. */
export const toFragment = (bench, { format, way, data, length, view }) =>
  [format, way, bench.sets.findIndex((set) => set.name === data) + 1, length, view].join("/");

/** The state that a fragment names, or null where it names none. */
export function fromFragment(bench, text) {
  const [format, way, place, length, view, ...rest] = text.split("/");
  const set = bench.sets[Number(place) - 1];
  const known = bench.formats.some((f) => f.name === format) && bench.ways.some((w) => w.name === way);
  if (!known || !set || !(Number(length) >= 1) || !VIEWS.includes(view) || rest.length) return null;
  return settled(bench, { format, way, data: set.name, length: Number(length), view });
}
