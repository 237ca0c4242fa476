// Answers the questions of test_rounding_explorer_numerics.py: jobs.json in, answers on standard output.
import { readFileSync } from "node:fs";
import * as js from "./rounding.mjs";

const float = (x) => js.fromFloat(x === "-0" ? -0 : Number(x));
const text = (code) => (code === null ? null : String(code));
const answers = {
  draws: ({ key, count }) => Array.from({ length: count }, (_, i) => text(js.random64At(BigInt(key), BigInt(i)))),
  outcomes: ({ xs, rounding, overflow }, f) =>
    xs.map((x) => {
      const { code, other, chance } = js.outcome(float(x), f, rounding, overflow);
      return [text(code), text(other), text(chance.num), text(chance.den)];
    }),
  situations: ({ xs }, f) => xs.map((x) => js.situation(float(x), f)),
  gaps: ({ xs }, f) => xs.map((x) => js.toFloat(js.gapAt(float(x), f))),
  answers: ({ xs, rounding }, f) =>
    xs.map((x) => {
      const { saturate, infinity, nan, own } = js.overflowAnswers(float(x), f, rounding);
      return [text(saturate), text(infinity), text(nan), own];
    }),
  pieces({ low, high, rounding, overflow }, f) {
    const [from, to] = [float(low), float(high)];
    const values = js.valuesBetween(f, from, to, js.real(false, 1n, 1n, -2000));
    const ends = js.pieces(f, values, from, to, rounding, overflow);
    return {
      values: values.map(({ code }) => text(code)),
      pieces: ends.map((p) => [js.toFloat(p.low), js.toFloat(p.high), p.lowIn, p.highIn, text(p.code), text(p.other)]),
    };
  },
  hundreds: ({ xs, seed, overflow }, f) =>
    xs.map((x) => {
      let state = js.makeState({ format: f, number: x, rounding: "stochastic", overflow, seed });
      for (let i = 0; i < 3; i += 1) state = js.drawMore(state);
      const mean = js.meanOfDraws(state);
      return [state.draws, state.ups, mean && js.toFloat(mean)];
    }),
  ties: ({ xs }, f) =>
    xs.map((x) => {
      const state = js.makeState({ format: f, number: x, rounding: "nearest_even", overflow: "ieee" });
      return [-1, 1].map((way) => js.toFloat(js.toTie(state, way).x));
    }),
  moves: ({ xs }, f) =>
    xs.map((x) => {
      const state = js.makeState({ format: f, number: x, rounding: "nearest_even", overflow: "ieee" });
      return [-8, -1, 1, 8].map((n) => js.toFloat(js.nudge(state, n).x));
    }),
  links: ({ formats, links }) =>
    links.map((link) => {
      const named = formats.map(js.describe);
      const start = js.makeState({ format: named[0], number: "1", rounding: "nearest_even", overflow: "ieee" });
      const state = js.fromFragment(link, named, start);
      return state && js.toFragment(state, named);
    }),
};

const jobs = JSON.parse(readFileSync("jobs.json", "utf-8"));
console.log(JSON.stringify(jobs.map((job) => answers[job.do](job, job.format && js.describe(job.format)))));
