// A stretch of the number line around one value of a format: its neighbors, its rounding bin, and where a number fell.

import { svg } from "./base.js";
import { brief, powerOfTwo, shorten } from "./decimal.js";
import { gaps, surroundings } from "./neighborhood.js";
import { absolute, compare, divide, exact, kind, log2Floor, subtract, toFloat } from "./numerics.js";

const AXIS = 62; // px from the top
const HEIGHT = 158;
const CHARACTER = 6.9; // px, of the 11.5 px monospace labels
const REACH = { narrow: 1.36, wide: 2.3 }; // how many of the wider gap lie between the middle and an end

/**
 * The drawing, `width` px wide. `x` is the number that is held, `name` its text; a marker shows it where it is not the
 * value itself. NaN has no place: null.
 */
export function numberLine(code, f, x, name, width) {
  if (kind(code, f) === "nan") return null;
  const around = surroundings(code, f);
  const toPixel = scaleFor(around, width);
  const root = svg("svg", {
    class: "sxb-line",
    width,
    height: HEIGHT,
    viewBox: `0 0 ${width} ${HEIGHT}`,
    "aria-hidden": "true",
  });
  const shown = around.points
    .map((point) => ({ ...point, px: toPixel(point.place) }))
    .filter(({ px }) => px > -1 && px < width + 1);
  root.append(...binMarks(around, toPixel, width), axis(width), ...shown.map((point) => tick(point, f)));
  root.append(...labels(shown, f, width), ...gapMarks(shown, f));
  if (x.kind === "finite" && compare(x, around.here) !== 0)
    root.append(...arrival(toPixel(x), toPixel(around.here), name, width));
  return root;
}

/** A function from Reals to px: linear, the value in the middle. */
function scaleFor({ here, points }, width) {
  const distances = points.filter((p) => Math.abs(p.offset) === 1).map((p) => absolute(subtract(p.place, here)));
  const widest = distances.reduce((a, b) => (compare(a, b) < 0 ? b : a));
  const half = width / 2;
  const reach = width < 520 ? REACH.narrow : REACH.wide;
  return (x) => half + (toFloat(divide(subtract(x, here), widest)) / reach) * half;
}

const axis = (width) => svg("line", { class: "sxb-axis", x1: 0, x2: width, y1: AXIS, y2: AXIS });

function tick({ px, offset, code }, f) {
  const infinite = kind(code, f) === "infinity";
  if (offset === 0) return svg("circle", { class: "sxb-here", cx: px, cy: AXIS, r: 6 });
  return svg("line", {
    class: "sxb-tick",
    x1: px,
    x2: px,
    y1: AXIS - 7,
    y2: AXIS + 7,
    "stroke-dasharray": infinite && "2 3",
  });
}

/** The band of numbers that round to the value, and its ends: full where they belong to it, hollow where not. */
function binMarks({ low, high, lowIn, highIn }, toPixel, width) {
  const [left, right] = [low ? toPixel(low) : -20, high ? toPixel(high) : width + 20];
  const end = (px, belongs) =>
    svg("circle", { class: belongs ? "sxb-end sxb-closed" : "sxb-end", cx: px, cy: AXIS, r: 4 });
  return [
    svg("rect", { class: "sxb-bin", x: left, width: Math.max(right - left, 2), y: AXIS - 24, height: 48, rx: 4 }),
    low && end(left, lowIn),
    high && end(right, highIn),
  ].filter(Boolean);
}

/** The value's own label and its neighbors', moved to a second row where they would touch. */
function labels(points, f, width) {
  const room = Math.min(Math.max(Math.floor(width / 3 / CHARACTER) - 2, 9), 20); // characters
  const own = labelOf(points.find(({ offset }) => offset === 0).code, f, room);
  const boxes = points
    .filter(({ offset }) => Math.abs(offset) <= 1)
    .map(({ offset, px, code }) => {
      const digits = labelOf(code, f, room);
      // Cut short, the digits of FP64 are the same on all sides.
      const label = offset && digits === own ? (offset < 0 ? "−1 ulp" : "+1 ulp") : digits;
      const half = (label.length * CHARACTER) / 2;
      return { offset, label, half, middle: Math.min(Math.max(px, half + 2), width - half - 2) };
    });
  const here = boxes.find(({ offset }) => offset === 0);
  return boxes.map((box) => {
    const apart = box === here || Math.abs(box.middle - here.middle) > box.half + here.half + 8;
    return svg("text", {
      class: box === here ? "sxb-label sxb-label-here" : "sxb-label",
      x: box.middle,
      y: AXIS + (apart ? 42 : 58),
      "text-anchor": "middle",
      text: box.label,
    });
  });
}

function labelOf(code, f, room) {
  if (kind(code, f) === "infinity") return code & f.sign_bit ? "−∞" : "∞";
  return brief(exact(code, f), room);
}

/** The gaps to both neighbors, as a draughtsman marks a length. */
function gapMarks(points, f) {
  const here = points.find(({ offset }) => offset === 0);
  const sides = { "-1": "below", 1: "above" };
  return points
    .filter(({ offset }) => Math.abs(offset) === 1)
    .flatMap(({ px, offset }) => {
      const gap = gaps(here.code, f)[sides[offset]];
      const [left, right] = [Math.min(px, here.px) + 3, Math.max(px, here.px) - 3];
      if (!gap || right - left < 8 * CHARACTER) return [];
      return [
        svg("path", { class: "sxb-gap", d: `M${left} ${AXIS + 66}v8m0 -4H${right}m0 -4v8` }),
        svg("text", {
          class: "sxb-gap-text",
          x: (left + right) / 2,
          y: AXIS + 86,
          "text-anchor": "middle",
          text: `gap ${powerOfTwo(log2Floor(gap))}`,
        }),
      ];
    });
}

/** The number that was asked for, and the way it went. */
function arrival(px, target, name, width) {
  const inside = Math.min(Math.max(px, 8), width - 8);
  const label = shorten(name, 18);
  const half = (label.length * CHARACTER) / 2;
  const middle = Math.min(Math.max(inside, half + 2), width - half - 2);
  const far = inside !== px;
  const towards = Math.sign(target - inside);
  return [
    svg("text", { class: "sxb-label sxb-label-held", x: middle, y: 12, "text-anchor": "middle", text: label }),
    svg("path", { class: "sxb-held-stem", d: `M${inside} 18V${AXIS}` }),
    svg("path", {
      class: "sxb-held",
      d: far ? `M${inside - towards * 6} 30l${towards * 10} -6v12z` : `M${inside} ${AXIS - 7}l6 7l-6 7l-6 -7z`,
    }),
  ];
}
