// The chart of SumExplorer: error or size of the sum against the number of terms, both axes in powers of two.

import { svg } from "./base.js";
import { powerOfTwo } from "./decimal.js";
import { bounds, curve, exactCurve, formatOf, roundoff, setOf, wayOf } from "./sum_state.js";

const MARGIN = { left: 46, right: 14, top: 12, bottom: 40 };
const ZERO_BAND = 16; // px below the axis for errors that are exactly zero

/** What the chart needs to place things: { x(n), y(value), inside, ... }. */
export function chartFrame(bench, state, width, height) {
  const inside = { left: MARGIN.left, right: width - MARGIN.right, top: MARGIN.top, bottom: height - MARGIN.bottom };
  const steps = Math.log2(setOf(bench, state).steps.length) || 1;
  const [low, high] = domain(bench, state);
  const floor = inside.bottom - (state.view === "error" ? ZERO_BAND : 0);
  return {
    inside,
    floor,
    low,
    high,
    steps,
    x: (n) => inside.left + (Math.log2(n) / steps) * (inside.right - inside.left),
    y: (value) => {
      if (value === 0) return inside.bottom - 3;
      const part = (Math.min(Math.max(Math.log2(value), low), high) - low) / (high - low);
      return floor - part * (floor - inside.top);
    },
    /** The number of terms at a place, 1 or more. */
    n: (px) => 2 ** (steps * Math.max(0, Math.min(1, (px - inside.left) / (inside.right - inside.left)))),
  };
}

/** The powers of two at the ends of the vertical axis. */
function domain(bench, state) {
  if (state.view === "error") return [Math.log2(roundoff(formatOf(bench, state))) - 4, 0];
  const sizes = exactCurve(bench, state).map(({ y }) => y).filter((y) => y > 0);
  return [Math.floor(Math.log2(Math.min(...sizes))) - 1, Math.ceil(Math.log2(Math.max(...sizes))) + 1];
}

/** The drawing, as a list of SVG elements. */
export function chartParts(bench, state, width, height) {
  const frame = chartFrame(bench, state, width, height);
  const chosen = wayOf(bench, state);
  const lines = bench.ways
    .filter((way) => way !== chosen)
    .concat(chosen)
    .map((way) => wayLine(bench, state, way, frame, way === chosen));
  return [...axes(state, frame), ...guides(bench, state, frame), ...lines, ...cursor(bench, state, chosen, frame)];
}

function axes(state, frame) {
  const { inside, x, y, low, high, steps } = frame;
  const parts = [];
  const every = steps > 8 ? 2 : 1;
  for (let k = 0; k <= steps; k += every) {
    parts.push(svg("line", { class: "sxs-grid", x1: x(2 ** k), x2: x(2 ** k), y1: inside.top, y2: inside.bottom }));
    parts.push(label(x(2 ** k), inside.bottom + 15, 2 ** k, "middle"));
  }
  const jump = Math.ceil((high - low) / 7);
  for (let k = Math.ceil(low / jump) * jump; k <= high; k += jump) {
    parts.push(svg("line", { class: "sxs-grid", x1: inside.left, x2: inside.right, y1: y(2 ** k), y2: y(2 ** k) }));
    parts.push(label(inside.left - 6, y(2 ** k) + 4, powerOfTwo(k), "end"));
  }
  if (state.view === "error") parts.push(label(inside.left - 6, inside.bottom + 1, "0", "end"));
  parts.push(label((inside.left + inside.right) / 2, inside.bottom + 33, "number of terms (base 2)", "middle", "sxs-title"));
  return parts;
}

const label = (x, y, text, anchor, kind = "sxs-label") =>
  svg("text", { class: kind, x, y, "text-anchor": anchor, text: String(text) });

/** The bounds beside the errors, or the exact sum beside the sums. */
function guides(bench, state, frame) {
  const { lengths } = setOf(bench, state);
  const f = formatOf(bench, state);
  if (state.view === "sum") {
    return [path("sxs-exact", exactCurve(bench, state), frame), tag("exact", exactCurve(bench, state), frame, -8)];
  }
  const line = (name) => lengths.slice(1).map((n) => ({ n, y: bounds(f, n)[name] }));
  const drawn = { worst: line("worst").filter(({ y }) => y < 1), walk: line("walk").filter(({ y }) => y < 1) };
  return [
    path("sxs-bound", drawn.worst, frame),
    path("sxs-bound", drawn.walk, frame),
    tag("worst case, ~ n", drawn.worst.slice(0, -2), frame, -6, "end"),
    tag("random walk, ~ √n", drawn.walk.filter(({ n }) => n <= 2 ** (0.68 * frame.steps)), frame, -8, "end"),
  ];
}

function tag(text, points, frame, dy, anchor = "end") {
  const last = points[points.length - 1];
  return last ? label(frame.x(last.n) - 6, frame.y(last.y) + dy, text, anchor, "sxs-tag") : svg("g");
}

const path = (kind, points, frame, more) =>
  svg("path", { class: kind, d: points.map(({ n, y }, i) => `${i ? "L" : "M"}${frame.x(n)} ${frame.y(y)}`).join(""), ...more });

function wayLine(bench, state, way, frame, chosen) {
  const points = curve(bench, state, way);
  const dashes = way.dash.join(" ");
  return points
    ? path(`sxs-way${chosen ? " sxs-chosen" : ""}`, points, frame, { stroke: way.color, "stroke-dasharray": dashes })
    : svg("g");
}

function cursor(bench, state, way, frame) {
  const { x, y, inside } = frame;
  const here = curve(bench, state, way)?.find(({ n }) => n === state.length);
  const at = x(state.length);
  return [
    svg("line", { class: "sxs-cursor", x1: at, x2: at, y1: inside.top, y2: inside.bottom }),
    here ? svg("circle", { class: "sxs-point", cx: at, cy: y(here.y), r: 5, fill: way.color }) : svg("g"),
  ];
}
