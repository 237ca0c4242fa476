// Answers the questions of test_widgets_numerics.py: jobs.json in, answers on standard output, arrays in files.
import { readFileSync, writeFileSync } from "node:fs";
import * as js from "./explorer.mjs";

const bytes = (file) => Uint8Array.from(readFileSync(file)).buffer; // copied: small files share a buffer
const numbers = (file) => new Float64Array(bytes(file));
const integers = (file) => new BigUint64Array(bytes(file));
const answers = {
  describe: ({ names }, f) => json(names.map((name) => (typeof f[name] === "bigint" ? String(f[name]) : f[name]))),
  decode: ({ codes }, f) => values(Float64Array.from(integers(codes), (code) => js.decode(code, f))),
  encode({ x, draws, rounding, overflow, nan, flush_input: flushInput, flush_output: flushOutput }, f) {
    const random = draws && integers(draws);
    const options = { rounding, overflow, nan, flushInput, flushOutput };
    const code = (value, i) => js.encode(value, f, random ? { ...options, draw: random[i] } : options);
    return array("codes", BigUint64Array.from(Array.from(numbers(x), code)));
  },
  neighbors(job, f) {
    const all = Array.from({ length: 2 ** f.bits }, (_, i) => BigInt(i));
    const step = (direction) => all.map((code) => js.decode(js.neighbor(code, direction, f), f));
    const gaps = all.map((code) => js.toFloat(js.ulp(code & ~f.sign_bit, f)));
    return values(Float64Array.from([...step(-1), ...step(1), ...gaps]));
  },
  decimals: ({ codes }, f) =>
    json(Array.from(integers(codes), (code) => [js.exactDecimal(js.exact(code, f)), js.shortest(code, f)])),
  texts: ({ texts }, f) => json(texts.map((text) => "0x" + js.codeOf(js.readNumber(text).number, f).toString(16))),
  complaints: ({ texts }) => json(texts.map(complaint)),
  spec: (_, f) => json(js.fromSpec(js.specOf(f))),
  links: ({ formats, links }) =>
    json(
      links.map((link) => {
        const state = js.fromFragment(link, formats);
        return state && js.toFragment(state, formats);
      }),
    ),
};

let files = 0;
function array(kind, data) {
  const file = `answer${(files += 1)}`;
  writeFileSync(file, new Uint8Array(data.buffer));
  return { kind, file };
}
const values = (data) => array("values", data);
const json = (data) => ({ json: data });

function complaint(text) {
  try {
    js.readNumber(text);
    return "";
  } catch (problem) {
    return problem.message;
  }
}

const jobs = JSON.parse(readFileSync("jobs.json", "utf-8"));
console.log(JSON.stringify(jobs.map((job) => answers[job.do](job, job.format && js.describe(job.format)))));
