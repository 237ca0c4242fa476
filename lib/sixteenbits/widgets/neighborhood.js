// What lies around a value of a format: neighbors, gaps, the bin of numbers that round to it. No DOM.

import { absolute, add, bin, exact, kind, negate, neighbor, real, subtract, ulp } from "./numerics.js";

/**
 * The values around a code, from left to right: { here, points, low, high, lowIn, highIn } with the bin as in binOf and
 * points of { code, place, offset: how many steps from the code }. Places are Reals. Infinity has none on a line; it is
 * put where the grid would go on.
 */
export function surroundings(code, f, steps = 3) {
  const here = placeOf(code, f);
  const points = [{ code, place: here, offset: 0 }];
  for (const direction of [-1, 1]) {
    let last = code;
    for (let i = 1; i <= steps; i += 1) {
      const next = neighbor(last, direction, f);
      if (next === last) break;
      points.push({ code: next, place: placeOf(next, f), offset: direction * i });
      last = next;
    }
  }
  return { here, points: points.sort((a, b) => a.offset - b.offset), ...binOf(code, f) };
}

function placeOf(code, f) {
  const x = exact(code, f);
  if (x.kind !== "infinity") return x;
  const end = add(exact(f.max_code, f), ulp(f.max_code, f));
  return x.negative ? negate(end) : end;
}

/** The bin of a code with its sign: { low, high, lowIn, highIn }; an end that does not exist is null. */
export function binOf(code, f) {
  const magnitude = code & ~f.sign_bit;
  const what = kind(code, f);
  const edges = bin(what === "infinity" ? f.max_code : magnitude, f);
  if (what === "infinity") Object.assign(edges, { low: edges.high, lowIn: !edges.highIn, high: null });
  const nothingBeyond = magnitude === f.max_code && f.infinity_code === null && f.nan_code === null;
  if (nothingBeyond) edges.high = null;
  if (!f.signed && what === "zero") edges.low = exact(code, f); // negative numbers have no place in an unsigned format
  if (!f.zero && magnitude === 0n) Object.assign(edges, { low: real(false, 0n), lowIn: true });
  if ((code & f.sign_bit) === 0n || what === "zero") return edges;
  const { low, high, lowIn, highIn } = edges;
  return { low: high && negate(high), high: low && negate(low), lowIn: highIn, highIn: lowIn };
}

/** The gaps to the neighbors, as Reals: { below, above }, null where there is no finite neighbor. */
export function gaps(code, f) {
  const gap = (direction) => {
    const next = neighbor(code, direction, f);
    if (next === code || kind(next, f) === "infinity" || kind(code, f) === "infinity") return null;
    return absolute(subtract(exact(next, f), exact(code, f)));
  };
  return { below: gap(-1), above: gap(1) };
}
