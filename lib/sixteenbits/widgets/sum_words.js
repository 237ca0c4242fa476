// What SumExplorer says about a sum.

import { brief } from "./decimal.js";
import { toFloat } from "./numerics.js";
import { formatOf, reading, setOf, wayOf } from "./sum_state.js";

/** A share in percent, three digits. */
export function percentText(share) {
  if (share === Infinity) return "∞";
  if (share === 0) return "exact";
  const percent = 100 * share;
  if (percent >= 0.001) return `${Number(percent.toPrecision(3))} %`;
  return `${percent.toExponential(1).replace("-", "−")} %`;
}

/** A number as the explorers write it, about six digits. */
export function numberText(x) {
  if (x.kind !== "finite") return brief(x, 12).replace("-", "−");
  const value = toFloat(x);
  const text = Number.isInteger(value) && Math.abs(value) < 1e7 ? String(value) : String(Number(value.toPrecision(7)));
  return text.replace("-", "−");
}

/** One or two sentences about the chosen sum. */
export function sayReading(bench, state) {
  const { n, sum, exact, error, idle } = reading(bench, state);
  const f = formatOf(bench, state);
  const parts = [`${n} ${n === 1 ? "term" : "terms"} in ${f.title}: the sum is ${numberText(sum)}, exactly it is ${numberText(exact)}.`];
  if (error === 0) parts.push("No error at all.");
  if (idle && idle.count > 0) {
    const part = Math.round((100 * idle.count) / (n - 1));
    parts.push(idle.last < n
      ? `${idle.count} of ${n - 1} additions (${part} %) changed nothing; the last one that did was addition ${idle.last - 1}.`
      : `${idle.count} of ${n - 1} additions (${part} %) changed nothing.`);
  }
  return parts.join(" ");
}

/** The same for a screen reader, with the names of what was chosen. */
export const sayAloud = (bench, state) =>
  `${setOf(bench, state).name}; ${wayOf(bench, state).title}. ${sayReading(bench, state)} Error ${percentText(reading(bench, state).error)}.`;
