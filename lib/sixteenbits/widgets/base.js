// What the explorers share with the page around them: elements, keys, links, the clipboard.

/** An HTML element. `props`: text, on… (listeners), everything else an attribute; false and null leave it out. */
export const h = (tag, props, ...children) => fill(document.createElement(tag), props, children);

/** An SVG element, made likewise. */
export const svg = (tag, props, ...children) =>
  fill(document.createElementNS("http://www.w3.org/2000/svg", tag), props, children);

function fill(element, props, children) {
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === false || value === null || value === undefined) continue;
    if (name === "text") element.textContent = value;
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

/** Text set only where it changes, so that screen readers and selections are left in peace. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Calls back with the width of an element, now and whenever it changes. Returns a function that stops it. */
export function watchWidth(element, callback) {
  let last = 0;
  const observer = new ResizeObserver(([entry]) => {
    const width = Math.floor(entry.contentRect.width);
    if (width && width !== last) callback((last = width));
  });
  observer.observe(element);
  return () => observer.disconnect();
}

// -- links -----------------------------------------------------------------------------------------------------------
// The address of a page has one fragment, and several explorers may want it. The n-th explorer of the page (in order of
// the document) answers to "#n:…", the first to "#…" as well. Whoever was used last writes it. In a notebook with a
// kernel the address belongs to the notebook: there the fragment is left alone.

const SHARING = "data-sxb-shares";
const JOINED = "sixteenbits:joined";

/** Whether this is a page with embedded widgets, not a live notebook. */
export const isPage = () => document.querySelector('script[type="application/vnd.jupyter.widget-state+json"]') !== null;

/**
 * Ties an explorer to the fragment. `show(text)` shows what a fragment says, and returns false where it says nothing to
 * this explorer; `restore()` goes back to the start. Returns { write(text), link(text), stop() }.
 */
export function shareFragment(root, { show, restore }) {
  if (!isPage()) return { write() {}, link: null, stop() {} };
  root.setAttribute(SHARING, "");
  let touched = false;
  let shown = false;
  let timer = 0;

  const place = () => [...document.querySelectorAll(`[${SHARING}]`)].indexOf(root) + 1;
  const mine = () => {
    const match = /^#(?:(\d+):)?(.+)$/.exec(location.hash);
    return match && Number(match[1] ?? 1) === place() ? match[2] : null;
  };
  const read = () => {
    const text = mine();
    if (text !== null && show(text)) {
      shown = true;
      root.scrollIntoView({ block: "nearest" });
    } else if (shown && !touched) {
      restore();
      shown = false;
    }
  };
  // Explorers come to life in no fixed order: when one joins, the places of the others may change.
  const settle = () => touched || read();
  const onHash = () => mine() !== null && read();
  const withPlace = (text) => "#" + (place() > 1 ? `${place()}:` : "") + text;

  window.addEventListener("hashchange", onHash);
  document.addEventListener(JOINED, settle);
  // `root` is put into the page only after it is made.
  queueMicrotask(() => requestAnimationFrame(() => document.dispatchEvent(new CustomEvent(JOINED))));
  return {
    write(text) {
      touched = true;
      clearTimeout(timer); // browsers refuse too many changes of the address in a row
      timer = setTimeout(() => history.replaceState(history.state, "", withPlace(text)), 250);
    },
    link: (text) => location.href.replace(/#.*/s, "") + withPlace(text),
    stop() {
      clearTimeout(timer);
      window.removeEventListener("hashchange", onHash);
      document.removeEventListener(JOINED, settle);
    },
  };
}

/** Text into the clipboard; where the browser keeps it closed (plain http), by way of a selection. */
export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = h("textarea", { class: "sxb-offscreen", "aria-hidden": "true" });
    area.value = text;
    const focused = document.activeElement;
    document.body.append(area);
    area.select();
    const copied = document.execCommand("copy");
    area.remove();
    focused?.focus();
    return copied;
  }
}

/** A button that copies text() and says so for a moment. */
export function copyButton(label, text) {
  const button = h("button", {
    type: "button",
    class: "sxb-quiet",
    onclick: async () => {
      const done = await copyText(text());
      say.textContent = done ? "Copied" : "Not copied: the browser forbids it";
      button.classList.add("sxb-done");
      setTimeout(() => {
        say.textContent = label;
        button.classList.remove("sxb-done");
      }, 1600);
    },
  });
  const say = h("span", { "aria-live": "polite", text: label });
  button.append(say);
  return button;
}
