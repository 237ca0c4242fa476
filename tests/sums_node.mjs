// Answers the questions of test_sum_explorer_numerics.py: jobs.json in, answers on standard output.
import { readFileSync } from "node:fs";
import * as js from "./sums.mjs";

const text = (x) => (Object.is(x, -0) ? "-0.0" : String(x).replace("Infinity", "inf").replace("NaN", "nan"));
const float = (x) => js.fromFloat(Number({ inf: "Infinity", "-inf": "-Infinity", nan: "NaN" }[x] ?? x));
const whole = (way) => ({ ...way, format: way.format && js.describe(way.format) });
const answers = {
  sums({ terms, lengths, way, key }, f) {
    const rounded = terms.map((x) => js.roundReal(float(x), f));
    return js.sumsOf(rounded, lengths, whole(way), f, BigInt(key)).map((x) => text(js.toFloat(x)));
  },
  exact: ({ data, lengths }, f) =>
    js.exactSums(js.termsIn(data, f), lengths).map(({ total, size }) => [js.toFloat(total), js.toFloat(size)].map(text)),
  idle: ({ data, lengths, way }, f) => lengths.map((n) => js.idle(js.termsIn(data, f), n, whole(way), f)),
  bounds: ({ lengths }, f) => lengths.map((n) => Object.values(js.bounds(f, n)).map(text)),
  links({ tables, links }) {
    const bench = js.makeBench(tables);
    return links.map((link) => {
      const state = js.fromFragment(bench, link);
      return state && js.toFragment(bench, state);
    });
  },
};

const jobs = JSON.parse(readFileSync("jobs.json", "utf-8"));
console.log(JSON.stringify(jobs.map((job) => answers[job.do](job, js.describe(job.format)))));
