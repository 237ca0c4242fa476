// Sums as a machine makes them, every addition rounded: accumulate.py for one row of terms. No DOM.
//
// A way of adding is a record from Python: { scheme, chunk, rounding, format }, where format is that of the accumulator
// (null: the one of the terms). Numbers are Reals (numerics.js). A test compares the sums with the library, bit for bit.

import { random64At } from "./draws.js";
import { add, encodeReal, exact, fromFloat, nan, negate, real } from "./numerics.js";

/** A Real rounded to a value of a format, to nearest if nothing else is said. */
export const roundReal = (x, f, options) => exact(encodeReal(x, f, { nan: 0, ...options }), f);

/** a + b with infinities, NaN and minus zeros. */
export function plus(a, b) {
  if (a.kind === "finite" && b.kind === "finite") {
    const bothMinusZero = a.num === 0n && b.num === 0n && a.negative && b.negative;
    return bothMinusZero ? a : add(a, b);
  }
  if (a.kind === "nan" || b.kind === "nan") return nan();
  if (a.kind === "finite") return b;
  return b.kind === "finite" || a.negative === b.negative ? a : nan();
}

/** The function (a, b, index) → a + b, rounded to f; a stochastic one takes random number `index`. */
function adder(f, rounding, key) {
  if (rounding !== "stochastic") return (a, b) => roundReal(plus(a, b), f, { rounding });
  return (a, b, index) => roundReal(plus(a, b), f, { rounding, draw: random64At(key, BigInt(index)) });
}

// Each scheme: (terms, sum of two, index before the first addition, seen) → total. Schemes that go from left to right
// call seen(n, total) after each term, since the total is then the sum of the first n.
const SCHEMES = {
  sequential(x, sum, first, seen) {
    let total = x[0];
    seen(1, total);
    for (let i = 1; i < x.length; i += 1) {
      total = sum(total, x[i], first + i);
      seen(i + 1, total);
    }
    return total;
  },
  pairwise(x, sum, first) {
    let level = x;
    let made = 0;
    while (level.length > 1) {
      const sums = [];
      for (let i = 0; i + 1 < level.length; i += 2) sums.push(sum(level[i], level[i + 1], first + (made += 1)));
      level = level.length % 2 ? [...sums, level[level.length - 1]] : sums;
    }
    return level[0];
  },
  kahan(x, sum, first, seen) {
    let total = x[0];
    let carry = total.kind === "finite" ? real(false, 0n) : nan();
    seen(1, total);
    for (let i = 1; i < x.length; i += 1) {
      const at = first + 4 * i;
      const term = sum(x[i], negate(carry), at);
      const grown = sum(total, term, at + 1);
      carry = sum(sum(grown, negate(total), at + 2), negate(term), at + 3);
      total = grown;
      seen(i + 1, total);
    }
    return total;
  },
};
const DRAWS = { sequential: 1, pairwise: 1, kahan: 4 }; // random numbers for each term

/** Whether the way goes from left to right, so that one pass gives the sums of all lengths. */
const isRunning = ({ scheme, chunk }) => !chunk && scheme !== "pairwise";

/**
 * The sums of the first n terms, for each n of `lengths` (ascending), rounded to f in the end.
 * `terms` are values of f; `key` is the seed of a stochastic way.
 */
export function sumsOf(terms, lengths, way, f, key = 0n) {
  const held = way.format ?? f;
  const ready = way.format ? terms.map((x) => roundReal(x, held)) : terms;
  const sum = adder(held, way.rounding, key);
  const finish = (total) => (way.format ? roundReal(total, f) : total);
  if (!isRunning(way)) return lengths.map((n) => finish(chunked(ready.slice(0, n), way, sum)));
  const wanted = new Set(lengths);
  const found = [];
  const seen = (n, total) => wanted.has(n) && found.push(finish(total));
  SCHEMES[way.scheme](ready.slice(0, lengths[lengths.length - 1]), sum, 0, seen);
  return found;
}

function chunked(x, { scheme, chunk }, sum) {
  const run = (part, first) => SCHEMES[scheme](part, sum, first, () => {});
  if (!chunk) return run(x, 0);
  const sums = [];
  for (let i = 0; i < x.length; i += chunk) sums.push(run(x.slice(i, i + chunk), i * DRAWS[scheme]));
  return run(sums, sums.length * chunk * DRAWS[scheme]);
}

/** How many of the first n additions of a way that goes from left to right left the total as it was, and the last that did not. */
export function idle(terms, n, way, f, key = 0n) {
  if (!isRunning(way) || way.scheme !== "sequential") return null;
  const held = way.format ?? f;
  const sum = adder(held, way.rounding, key);
  let count = 0;
  let last = 1;
  let before = null;
  SCHEMES.sequential(terms.slice(0, n).map((x) => roundReal(x, held)), sum, 0, (i, total) => {
    if (before !== null && same(before, total) && terms[i - 1].num !== 0n) count += 1;
    else last = i;
    before = total;
  });
  return { count, last };
}

const same = (a, b) => a.kind === b.kind && a.negative === b.negative && a.num === b.num && a.exp === b.exp;

/** The exact sums and the sums of the sizes of the first n terms, for each n of `lengths`. */
export function exactSums(terms, lengths) {
  const wanted = new Set(lengths);
  const found = [];
  let [total, size] = [real(false, 0n), real(false, 0n)];
  terms.forEach((x, i) => {
    total = add(total, x);
    size = add(size, { ...x, negative: false });
    if (wanted.has(i + 1)) found.push({ total, size });
  });
  return found;
}

/** The terms that Python hands over, whole numbers of a unit, rounded to a format. */
export const termsIn = ({ unit, steps }, f) => steps.map((n) => roundReal(fromFloat(n * unit), f));
