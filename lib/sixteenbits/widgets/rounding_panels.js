// The parts of RoundingExplorer below the line: a row for each mode, the overflow rules, the draws, other formats.

import { h, setText, svg } from "./base.js";
import { rounded } from "./decimal.js";
import { ROUNDINGS, toFloat } from "./numerics.js";
import { drawLane, LANE_HEIGHT } from "./rounding_line.js";
import { outcome } from "./rounding_bins.js";
import { drawMore, meanOfDraws, setMode, setOverflow, toggleOther } from "./rounding_state.js";
import {
  complement,
  hexOf,
  MODE_NAMES,
  overflowCards,
  overflows,
  percentOf,
  sayMove,
  sayTarget,
  show,
} from "./rounding_words.js";

/** The lane of a row, redrawn for a state. */
function lane() {
  const root = svg("svg", { class: "sxb-lane", height: LANE_HEIGHT, "aria-hidden": "true" });
  return {
    root,
    draw(state, f, rounding, width) {
      root.toggleAttribute("hidden", state.x.kind !== "finite");
      if (state.x.kind !== "finite") return;
      root.setAttribute("width", width);
      root.replaceChildren(...drawLane(state, f, rounding, width));
    },
  };
}

/** Where x goes in a row: the value, and what that means for x. */
function target() {
  const value = h("strong", { class: "sxb-goes" });
  const move = h("small");
  return {
    root: h("span", { class: "sxb-target" }, value, move),
    draw(state, f, rounding, characters) {
      const there = outcome(state.x, f, rounding, state.overflow);
      setText(value, sayTarget(there, f, characters));
      const code = there.other === null ? hexOf(there.code, f) : "";
      setText(move, [code, sayMove(state.x, there, f)].filter(Boolean).join(" · "));
    },
  };
}

/** Six rows, one a mode, side by side under one line; choosing one colors the bins. */
export function modeRows(id, act) {
  const rows = ROUNDINGS.map((rounding) => {
    const input = h("input", {
      type: "radio",
      name: `${id}-mode`,
      value: rounding,
      onchange: () => act((s) => setMode(s, rounding)),
    });
    const [goes, path] = [target(), lane()];
    const head = h("span", { class: "sxb-head" }, input, h("span", { text: MODE_NAMES[rounding] }), goes.root);
    return { rounding, input, goes, path, root: h("label", { class: "sxb-row" }, head, path.root) };
  });
  return {
    root: h(
      "fieldset",
      { class: "sxb-rows" },
      h("legend", { text: "Rounding modes; the chosen one colors the line" }),
      rows.map(({ root }) => root),
    ),
    draw(state, width) {
      for (const { rounding, input, goes, path, root } of rows) {
        input.checked = state.rounding === rounding;
        root.classList.toggle("sxb-on", input.checked);
        goes.draw(state, state.format, rounding, width < 480 ? 9 : 14);
        path.draw(state, state.format, rounding, width);
      }
    },
  };
}

/** What happens beyond the largest value: the rule that is used, and the three possible answers. */
export function overflowPanel(id, act) {
  const select = h(
    "select",
    { id: `${id}-overflow`, onchange: () => act((s) => setOverflow(s, select.value)) },
    h("option", { value: "ieee", text: "own rule" }),
    h("option", { value: "saturate", text: "saturate" }),
  );
  const cards = h("dl", { class: "sxb-cards" });
  const note = h("p", { class: "sxb-note" });
  return {
    choice: h("div", { class: "sxb-choice" }, h("label", { for: select.id, text: "Overflow" }), select),
    root: h(
      "div",
      { class: "sxb-part", role: "group", "aria-label": "If it overflows" },
      h("p", { class: "sxb-caption", text: "If a result is too large" }),
      cards,
      note,
    ),
    draw(state) {
      select.value = state.overflow;
      const differ = overflows(state);
      cards.replaceChildren(
        ...overflowCards(state).map((card) => {
          const used = differ && !card.missing && (state.overflow === "saturate" ? card.key === "saturate" : card.own);
          return h(
            "div",
            { class: `sxb-card${used ? " sxb-used" : ""}${card.missing ? " sxb-missing" : ""}` },
            h("dt", { text: card.title + (card.own ? " (own rule)" : "") }),
            h("dd", { text: card.text }),
          );
        }),
      );
      setText(
        note,
        differ ? "Here the rules disagree." : "Here all rules agree: nothing overflows under the chosen mode.",
      );
    },
  };
}

/** Stochastic rounding: the chances as a bar, and what a hundred draws at a time give. */
export function drawPanel(act) {
  const [chances, counts] = [bar("chance"), bar("drawn")];
  const button = h("button", {
    type: "button",
    class: "sxb-tool",
    text: "Draw 100",
    onclick: () => act((s) => drawMore(s)),
  });
  const reset = h("button", {
    type: "button",
    class: "sxb-quiet",
    text: "Start again",
    onclick: () => act((s) => ({ ...s, draws: 0, ups: 0 })),
  });
  const note = h("p", { class: "sxb-note", role: "status" });
  const root = h(
    "div",
    { class: "sxb-part", role: "group", "aria-label": "Stochastic rounding" },
    h("p", { class: "sxb-caption", text: "Stochastic rounding, repeated" }),
    chances.root,
    counts.root,
    h("div", { class: "sxb-draws" }, button, reset, note),
  );
  return {
    root,
    draw(state) {
      const { x, format: f, overflow, draws, ups } = state;
      const there = outcome(x, f, "stochastic", overflow);
      root.hidden = x.kind !== "finite";
      button.disabled = there.other === null;
      reset.hidden = !draws;
      const lowFirst = (c) => (x.negative ? [...c].reverse() : c);
      const values = lowFirst([there.other ?? there.code, there.code]).map((code) => show(code, f, 12));
      const shares = lowFirst([complement(there.chance), there.chance]);
      chances.draw(values, shares.map(percentOf), shares.map(toFloat), there.other === null);
      const times = lowFirst([draws - ups, ups]);
      counts.draw(
        values,
        times.map(String),
        times.map((n) => n / (draws || 1)),
        there.other === null || !draws,
      );
      setText(note, drawNote(state, there.other === null));
    },
  };
}

function drawNote(state, certain) {
  if (certain) return "Nothing to draw: there is only one place to go.";
  if (!state.draws) return "Each draw goes to one of the two neighbors.";
  const mean = meanOfDraws(state);
  return `${state.draws} draws${mean ? `, mean ${rounded(mean, 5).replace("-", "−")}` : ""}`;
}

/** A bar of two parts, each named by its value and share. */
function bar(name) {
  const parts = [0, 1].map(() => h("span"));
  const root = h("div", { class: `sxb-bar sxb-bar-${name}`, role: "img" }, parts);
  return {
    root,
    draw(values, texts, shares, empty) {
      const words = { chance: "chances", drawn: "drawn" }[name];
      root.classList.toggle("sxb-empty", empty);
      const says = values.map((value, i) => `${value}: ${texts[i]}`);
      root.setAttribute("aria-label", empty ? `${words}: none` : `${words}: ${says.join(", ")}`);
      parts.forEach((part, i) => {
        part.style.flexGrow = empty ? 1 : shares[i];
        part.hidden = !empty && shares[i] === 0;
        setText(part, empty ? "" : shares[i] > 0.25 ? says[i] : "");
        part.title = says[i];
      });
    },
  };
}

/** The same number and the chosen mode in other formats, on the same line: which ones is the reader's choice. */
export function otherFormats(named, colors, act) {
  const chips = named.map((f) => ({
    f,
    root: h(
      "button",
      { type: "button", class: "sxb-chip", onclick: () => act((s) => toggleOther(s, f)) },
      h("span", { class: "sxb-dot", style: `background:${colors[f.name] ?? "currentColor"}` }),
      f.title,
    ),
  }));
  const list = h("div", { class: "sxb-rows" });
  let rows = [];
  const root = h(
    "div",
    { class: "sxb-part", role: "group", "aria-label": "Other formats" },
    h("p", { class: "sxb-caption", text: "The same number in other formats, rounded in the chosen mode" }),
    list,
    h(
      "div",
      { class: "sxb-chips" },
      chips.map((chip) => chip.root),
    ),
  );
  return {
    root,
    draw(state, width) {
      for (const { f, root: chip } of chips) {
        chip.hidden = f.name === state.format.name;
        chip.setAttribute(
          "aria-pressed",
          state.others.some((other) => other.name === f.name),
        );
      }
      if (rows.length !== state.others.length || rows.some(({ f }, i) => f !== state.others[i])) {
        rows = state.others.map((f) => ({ f, goes: target(), path: lane() }));
        list.replaceChildren(
          ...rows.map(({ f, goes, path }) =>
            h(
              "div",
              { class: "sxb-row" },
              h(
                "span",
                { class: "sxb-head" },
                h("span", { class: "sxb-dot", style: `background:${colors[f.name] ?? "currentColor"}` }),
                h("span", { text: f.title }),
                goes.root,
              ),
              path.root,
            ),
          ),
        );
      }
      for (const { f, goes, path } of rows) {
        goes.draw(state, f, state.rounding, width < 480 ? 9 : 14);
        path.draw(state, f, state.rounding, width);
      }
    },
  };
}
