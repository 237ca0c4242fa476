// The table of what every named format makes of a number.

import { h, setText } from "./base.js";
import { dot } from "./bit_panel.js";
import { held, storing, withFormat } from "./bit_state.js";
import { brief, rounded } from "./decimal.js";
import { exact } from "./numerics.js";

/** The table of what every named format makes of the number. Choosing a row puts it beside the first format. */
export function formatTable(named, colors, act) {
  const rows = named.map((f) => {
    const cells = ["stored", "off", "relative", "ulps"].map((name) => h("td", { role: "cell", class: `sxb-${name}` }));
    const words = h("td", { role: "cell", class: "sxb-words" });
    const choose = h(
      "button",
      { type: "button", class: "sxb-pick", onclick: () => act((s) => beside(s, f)) },
      dot(colors[f.name]),
      f.title,
    );
    const row = h("tr", { role: "row" }, h("th", { role: "rowheader", scope: "row" }, choose), cells, words);
    return { f, row, cells, words, choose };
  });
  const heads = ["Format", "Stored", "Error", "Relative", "In ulps", ""];
  const root = h(
    "details",
    { class: "sxb-others", open: true },
    h("summary", { text: "The same number in other formats" }),
    h(
      "table",
      { role: "table" },
      h(
        "thead",
        { role: "rowgroup" },
        h(
          "tr",
          { role: "row" },
          heads.map((text) =>
            text ? h("th", { role: "columnheader", scope: "col", text }) : h("td", { role: "cell" }),
          ),
        ),
      ),
      h(
        "tbody",
        { role: "rowgroup" },
        rows.map(({ row }) => row),
      ),
    ),
  );
  return {
    root,
    draw(state) {
      const x = held(state);
      for (const { f, row, cells, words, choose } of rows) {
        const s = storing(x, f);
        const error = (e) => (e ? rounded(e, 3) : s.exact ? "0" : "–");
        [brief(exact(s.code, f), 16), error(s.absolute), error(s.relative), error(s.ulps)].forEach((text, i) =>
          setText(cells[i], text),
        );
        setText(words, s.words);
        row.className = s.exact ? "sxb-exact" : s.words === "rounded" ? "sxb-rounded" : "sxb-lost";
        row.classList.toggle("sxb-no-error", !s.absolute);
        choose.setAttribute("aria-pressed", state.second?.name === f.name);
      }
    },
  };
}

/** The format as the second one; once more, and it is gone. */
const beside = (state, f) => withFormat(state, "second", state.second?.name === f.name ? null : f);
