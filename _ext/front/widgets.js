// Brings the page's widgets to life without a kernel and without a network.
//
// A page whose widgets are all anywidgets needs nothing but this file: it gives each of them its recorded state and
// runs its module. Any other page gets the whole widget manager (0.9 MB gzipped), loaded from beside this file.
(() => {
  const here = document.currentScript.src.replace(/[^/]*$/, "");
  const STATE = 'script[type="application/vnd.jupyter.widget-state+json"]';
  const VIEW = 'script[type="application/vnd.jupyter.widget-view+json"]';

  // A model as anywidget's modules expect it. With no kernel there is nobody to send to, so a change stays here.
  class Model {
    constructor(state) {
      this.state = state;
      this.listeners = [];
      this.changed = new Set();
    }
    get(name) {
      return this.state[name];
    }
    set(name, value) {
      const values = typeof name === "object" ? name : { [name]: value };
      const names = Object.keys(values).filter((key) => this.state[key] !== values[key]);
      Object.assign(this.state, values);
      for (const key of names) {
        this.changed.add(key);
        this.emit(`change:${key}`, this, this.state[key]);
      }
      if (names.length) this.emit("change", this);
    }
    save_changes() {
      this.changed.clear();
    }
    send() {}
    on(event, callback) {
      for (const name of event.split(" ")) this.listeners.push({ name, callback });
    }
    off(event, callback) {
      const names = event?.split(" ");
      this.listeners = this.listeners.filter(
        (one) => (names && !names.includes(one.name)) || (callback && one.callback !== callback),
      );
    }
    emit(name, ...values) {
      for (const one of [...this.listeners]) if (one.name === name) one.callback(...values);
    }
  }

  function withBuffers({ state, buffers = [] }) {
    for (const { path, data, encoding } of buffers) {
      const text = encoding === "hex" ? data.match(/../g).map((pair) => parseInt(pair, 16)) : atob(data);
      const bytes = Uint8Array.from(text, (item) => (typeof item === "string" ? item.charCodeAt(0) : item));
      const holder = path.slice(0, -1).reduce((value, key) => value[key], state);
      holder[path.at(-1)] = new DataView(bytes.buffer);
    }
    return state;
  }

  async function start(state) {
    const url = URL.createObjectURL(new Blob([state._esm], { type: "text/javascript" }));
    const module = (await import(url)).default;
    const widget = typeof module === "function" ? await module() : module;
    const model = new Model(state);
    await widget.initialize?.({ model, signal: new AbortController().signal });
    return { widget, model };
  }

  async function mount(script, state, started) {
    if (state._css) document.head.append(Object.assign(document.createElement("style"), { textContent: state._css }));
    const { widget, model } = await started;
    const el = Object.assign(document.createElement("div"), { className: "jupyter-widgets anywidget" });
    script.after(el);
    await widget.render?.({ model, el, signal: new AbortController().signal });
  }

  function load(name) {
    return new Promise((resolve, reject) => {
      const script = Object.assign(document.createElement("script"), { src: here + name, onload: resolve });
      script.onerror = () => reject(new Error(`cannot load ${name}`));
      document.head.append(script);
    });
  }

  async function loadManager() {
    await load("require.js");
    const embed = here + "embed-amd";
    requirejs.config({
      paths: {
        anywidget: here + "anywidget",
        "@jupyter-widgets/html-manager": embed,
        "@jupyter-widgets/html-manager/dist/libembed-amd": embed,
      },
    });
    await load("embed-amd.js");
  }

  async function mountAll() {
    const state = JSON.parse(document.querySelector(STATE)?.textContent ?? '{"state": {}}').state;
    const views = [...document.querySelectorAll(VIEW)].map((script) => [script, state[JSON.parse(script.textContent).model_id]]);
    const linked = Object.values(state).some((model) => /LinkModel$/.test(model.model_name));
    const simple = !linked && views.every(([, model]) => model?.model_module === "anywidget");
    if (!views.length) return;
    if (!simple) return loadManager();
    const models = new Map();
    for (const [script, model] of views) {
      if (!models.has(model)) models.set(model, start(withBuffers(model)));
      mount(script, model.state, models.get(model)).catch((error) => console.error(error));
    }
  }

  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", mountAll);
  else mountAll();
})();
