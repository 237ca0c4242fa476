// The line of RoundingExplorer: values, middles, bins, the number, and below it one lane for each way it may go.

import { svg } from "./base.js";
import { shorten } from "./decimal.js";
import { add, exact, kind, negate, real, scale, toFloat } from "./numerics.js";
import { outcome, pieces, valuesBetween } from "./rounding_bins.js";
import { highOf, placeIn, spanOf } from "./rounding_state.js";
import { show } from "./rounding_words.js";

const [NAME, HANDLE, BAND, AXIS, BAND_END, LABELS, REGIONS, LINE_HEIGHT] = [13, 30, 48, 68, 88, 106, 116, 136];
export const LANE_HEIGHT = 16;
const LETTER = 6.9; // px, of the 11.5 px monospace labels

/** The parts of the drawing on top, `width` px wide, and its height. */
export function drawLine(state, width, id) {
  const { format: f, low } = state;
  const high = highOf(state);
  const px = (x) => placeIn(state, x) * width;
  const values = valuesBetween(f, low, high, scale(spanOf(state), -Math.floor(Math.log2(width / 3))));
  const close = values.length > width / 5;
  return {
    height: LINE_HEIGHT,
    parts: [
      ...(close ? [] : bands(state, values, px, width, id)),
      svg("line", { class: "sxb-axis", x1: 0, x2: width, y1: AXIS, y2: AXIS }),
      ...ticks(values, px),
      ...(close ? [] : middles(values, px)),
      ...valueLabels(state, values, px, width),
      ...regions(f, px, width),
      ...held(state, px, width),
    ],
  };
}

// -- bins ------------------------------------------------------------------------------------------------------------

/** What a piece of the line becomes, as a class: infinity, NaN, or one of two shades of value. */
function shade(code, f) {
  const what = kind(code, f);
  if (what === "infinity" || what === "nan") return what;
  return (code & 1n) === 0n ? "even" : "odd";
}

function bands(state, values, px, width, id) {
  const { format: f, x, rounding, overflow } = state;
  const there = outcome(x, f, rounding, overflow);
  return pieces(f, values, state.low, highOf(state), rounding, overflow).flatMap((piece, i) => {
    const [left, right] = [px(piece.low), px(piece.high)].map((p) => Math.max(-2, Math.min(width + 2, p)));
    const size = { x: left, width: Math.max(right - left, 1), y: BAND, height: BAND_END - BAND };
    const chosen = piece.code === there.code && piece.other === there.other;
    const mark = chosen && svg("rect", { ...size, class: "sxb-chosen" });
    if (piece.other !== null) return [...blend(piece, f, size, `${id}-${i}`), mark].filter(Boolean);
    const band = svg("rect", { ...size, class: `sxb-band sxb-band-${shade(piece.code, f)}` });
    return [band, mark, bandLabel(piece, f, size)].filter(Boolean);
  });
}

/** Between two values under stochastic rounding: from the color of one to that of the other. */
function blend({ low, code, other }, f, size, id) {
  const [left, right] = low.negative ? [code, other] : [other, code];
  const stop = (offset, c) => svg("stop", { offset, class: `sxb-stop-${shade(c, f)}` });
  const gradient = svg("linearGradient", { id }, stop("0%", left), stop("100%", right));
  return [svg("defs", null, gradient), svg("rect", { ...size, fill: `url(#${id})` })];
}

/** The destination, written into bands that do not show it: what overflows, and the zeros. */
function bandLabel({ code }, f, { x, width }) {
  const what = kind(code, f);
  const largest = (code & ~f.sign_bit) === f.max_code;
  if (what === "normal" && !largest) return null;
  const text = show(code, f, 9);
  if (what === "subnormal" || width < (text.length + 1) * LETTER) return null;
  return svg("text", { class: "sxb-band-text", x: x + width / 2, y: AXIS - 7, "text-anchor": "middle", text });
}

// -- values, middles, regions ----------------------------------------------------------------------------------------

function ticks(values, px) {
  return values.map(({ place }) =>
    svg("line", { class: "sxb-value", x1: px(place), x2: px(place), y1: AXIS - 12, y2: AXIS + 12 }),
  );
}

/** Short marks at the middles between neighbors, where ties lie. */
function middles(values, px) {
  const between = values.slice(1).map(({ place, next }, i) => next && scale(add(place, values[i].place), -1));
  return between.filter(Boolean).map((place) => {
    const at = px(place);
    return svg("path", { class: "sxb-middle", d: `M${at} ${BAND_END - 8}l3.5 8h-7z` });
  });
}

/** Labels of values, as many as have room; the neighbors of x come first. */
function valueLabels(state, values, px, width) {
  const { format: f, x } = state;
  const room = width < 480 ? 9 : 12;
  const middle = placeIn(state, x) * width;
  const boxes = values.map(({ code, place }) => {
    const text = place.num === 0n && f.has_minus_zero ? "±0" : show(code, f, room);
    const half = (text.length * LETTER) / 2;
    return { text, half, at: px(place), x: Math.min(Math.max(px(place), half + 1), width - half - 1) };
  });
  const kept = [];
  for (const box of boxes.sort((a, b) => Math.abs(a.at - middle) - Math.abs(b.at - middle))) {
    if (kept.every((other) => Math.abs(other.x - box.x) > other.half + box.half + 8)) kept.push(box);
    if (kept.length > 24) break;
  }
  return kept.map(({ text, x: at }) => svg("text", { x: at, y: LABELS, "text-anchor": "middle", text }));
}

/** The subnormal numbers and what lies beyond the largest value, as strips under the line. */
function regions(f, px, width) {
  const largest = exact(f.max_code, f);
  const found = [
    ["overflow", "beyond the largest value", [px(largest), width]],
    f.signed && ["overflow", "beyond the largest value", [0, px(negate(largest))]],
    f.subnormals && ["subnormal", "subnormal", [px(real(f.signed, 1n, 1n, f.emin)), px(real(false, 1n, 1n, f.emin))]],
  ].filter(Boolean);
  return found.flatMap(([name, text, ends]) => {
    const [left, right] = ends.map((p) => Math.max(0, Math.min(width, p)));
    if (right - left < 2) return [];
    const short = right - left < text.length * 6.6 ? text.split(" ")[0] : text;
    return [
      svg("rect", { class: `sxb-region sxb-region-${name}`, x: left, width: right - left, y: REGIONS, height: 4 }),
      right - left > short.length * 6.6 &&
        svg("text", {
          class: `sxb-region-${name}-text`,
          x: (left + right) / 2,
          y: REGIONS + 16,
          "text-anchor": "middle",
          text: short,
        }),
    ].filter(Boolean);
  });
}

/** The number itself: its text, a handle, a stem down to the line. */
function held(state, px, width) {
  const at = px(state.x);
  if (at < -1 || at > width + 1) return [];
  const text = shorten(state.number, 18);
  const half = (text.length * LETTER) / 2;
  return [
    svg("text", {
      class: "sxb-label-held",
      x: Math.min(Math.max(at, half + 2), width - half - 2),
      y: NAME,
      "text-anchor": "middle",
      text,
    }),
    svg("path", { class: "sxb-held-stem", d: `M${at} ${HANDLE}V${BAND_END}` }),
    svg("circle", { class: "sxb-handle", cx: at, cy: HANDLE, r: 9 }),
  ];
}

// -- lanes -----------------------------------------------------------------------------------------------------------

/** One way that x may go: the values as fine ticks, x as a drop, arrows to where it goes. */
export function drawLane(state, f, rounding, width) {
  const px = (x) => placeIn(state, x) * width;
  const y = LANE_HEIGHT / 2;
  const apart = scale(spanOf(state), -Math.floor(Math.log2(width / 4)));
  const values = valuesBetween(f, state.low, highOf(state), apart);
  const dense = values.length > width / 8;
  const start = px(state.x);
  const { code, other, chance } = outcome(state.x, f, rounding, state.overflow);
  const goals =
    other === null
      ? [[code, 1]]
      : [
          [code, toFloat(chance)],
          [other, 1 - toFloat(chance)],
        ];
  return [
    dense
      ? svg("rect", {
          class: "sxb-dense",
          x: px(values[0].place),
          width: px(values.at(-1).place) - px(values[0].place),
          y: y - 4,
          height: 8,
        })
      : svg("line", { class: "sxb-lane-axis", x1: 0, x2: width, y1: y, y2: y }),
    ...(dense
      ? []
      : values.map(({ place }) =>
          svg("line", { class: "sxb-lane-tick", x1: px(place), x2: px(place), y1: y - 4, y2: y + 4 }),
        )),
    ...goals.flatMap(([goal, weight]) => arrow(start, goalPixel(goal, f, px, width), weight, y)),
    svg("circle", { class: "sxb-lane-x", cx: start, cy: y, r: 3 }),
  ];
}

/** Where a code lies in px; infinity at the edge, NaN nowhere: null. */
function goalPixel(code, f, px, width) {
  const place = exact(code, f);
  if (place.kind === "nan") return null;
  if (place.kind === "infinity") return place.negative ? -20 : width + 20;
  return px(place);
}

function arrow(start, goal, weight, y) {
  if (goal === null) return [svg("path", { class: "sxb-gone", d: `M${start - 6} ${y - 6}l12 12m0 -12l-12 12` })];
  const way = Math.sign(goal - start);
  const thick = 1 + 3 * weight;
  const head = Math.abs(goal - start) > 12 ? 7 : 0;
  return [
    svg("line", { class: "sxb-arrow", x1: start, x2: goal - way * head, y1: y, y2: y, "stroke-width": thick }),
    svg("circle", { class: "sxb-goal", cx: goal, cy: y, r: 3 + 2.5 * weight }),
  ];
}
