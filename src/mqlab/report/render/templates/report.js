// The page works without this script: it is then one long document. With it the parts are tabs, and a chart can be
// zoomed, filtered, switched to a log axis, enlarged and saved. Vega draws it, from the same specification as the picture.
(function () {
  "use strict";
  const $$ = (selector, root = document) => [...root.querySelectorAll(selector)];

  // Tabs
  const tabs = $$(".tabs a");
  const panels = tabs.map((tab) => document.getElementById(tab.hash.slice(1)));

  function select(number, focus) {
    tabs.forEach((tab, n) => {
      tab.setAttribute("aria-selected", String(n === number));
      tab.tabIndex = n === number ? 0 : -1;
      panels[n].classList.toggle("shown", n === number);
    });
    if (focus) tabs[number].focus();
  }

  function reveal(id) {
    const target = id && document.getElementById(id);
    const number = target ? panels.findIndex((panel) => panel.contains(target)) : -1;
    if (number < 0) return;
    select(number);
    if (target === panels[number]) return;
    const inside = target.querySelector(":scope > details");
    if (inside) inside.open = true;
    for (let part = target; part; part = part.parentElement) if (part.tagName === "DETAILS") part.open = true;
    target.scrollIntoView();
  }

  if (tabs.length) {
    document.documentElement.classList.add("with-script");
    const list = tabs[0].parentElement;
    list.setAttribute("role", "tablist");
    tabs.forEach((tab, n) => {
      tab.setAttribute("role", "tab");
      tab.setAttribute("aria-controls", panels[n].id);
      panels[n].setAttribute("role", "tabpanel");
      panels[n].setAttribute("aria-labelledby", tab.id);
      tab.addEventListener("click", (event) => {
        event.preventDefault();
        history.replaceState(null, "", tab.hash);
        select(n);
        // Another tab begins at its beginning.
        const bar = list.parentElement;
        const top = bar.previousElementSibling.getBoundingClientRect().bottom + window.scrollY;
        if (window.scrollY > top) window.scrollTo(0, top);
      });
    });
    list.addEventListener("keydown", (event) => {
      const now = tabs.indexOf(document.activeElement);
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      const next = event.key === "Home" ? 0 : event.key === "End" ? tabs.length - 1 : step && (now + step + tabs.length) % tabs.length;
      if (now < 0 || next === undefined) return;
      event.preventDefault();
      select(next, true);
    });
    select(0);
    window.addEventListener("hashchange", () => reveal(location.hash.slice(1)));
    document.addEventListener("click", (event) => {
      const link = event.target.closest("a[href^='#']");
      if (link && link.hash === location.hash) reveal(link.hash.slice(1));
    });
    reveal(location.hash.slice(1));
  }
  window.addEventListener("beforeprint", () => $$("details:not(.notes)").forEach((part) => { part.open = true; }));

  // Charts
  const packed = document.getElementById("charts");
  if (!packed || !window.DecompressionStream) return;

  async function unpacked(id) {
    const bytes = Uint8Array.from(atob(document.getElementById(id).textContent), (letter) => letter.charCodeAt(0));
    return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
  }

  const once = (make) => { let made; return () => made || (made = make()); };
  const allSpecs = once(async () => JSON.parse(await unpacked("charts")));
  const library = once(async () => {
    const script = document.createElement("script");
    script.textContent = await unpacked("library");
    document.head.append(script);
    return window.vegaEmbed;
  });

  const copy = (value) => JSON.parse(JSON.stringify(value));

  function eachUnit(spec, visit, panel = spec) {
    for (const child of spec.layer || []) eachUnit(child, visit, spec.layer && panel);
    for (const child of spec.concat || []) eachUnit(child, visit, child);
    if (spec.mark) visit(spec, panel);
  }

  class Chart {
    constructor(figure, spec) {
      this.figure = figure;
      this.spec = spec;
      this.reading = spec.usermeta;
      this.frame = figure.querySelector(".picture-frame");
      this.hidden = new Set();
      this.log = this.isLog();
      this.natural = Number(this.frame.querySelector("svg").getAttribute("width"));
      this.tools();
    }

    isLog() {
      let log = false;
      eachUnit(this.spec, (unit) => {
        const on = unit.encoding[this.reading.valueAxis];
        if (on && on.scale && on.scale.type === "log") log = true;
      });
      return log;
    }

    rows() {
      const fields = Object.keys(this.reading.columns);
      return Object.values(this.spec.datasets).flat().filter((row) => fields.every((field) => field in row))
        .filter((row) => !this.hidden.has(row[this.reading.series]));
    }

    colours() {
      const colours = {};
      eachUnit(this.spec, (unit) => {
        const scale = unit.encoding.color && unit.encoding.color.scale;
        if (scale) scale.domain.forEach((name, n) => { colours[name] = scale.range[n]; });
      });
      const field = this.reading.series;
      const present = new Set(Object.values(this.spec.datasets).flat().map((row) => row[field]));
      return Object.entries(colours).filter(([name]) => present.has(name));
    }

    // The specification as the reader has set it, `width` pixels wide.
    drawn(width) {
      const spec = copy(this.spec);
      for (const [name, rows] of Object.entries(spec.datasets)) {
        spec.datasets[name] = rows.filter((row) => !this.hidden.has(row[this.reading.series]));
      }
      const panels = spec.concat || [spec];
      const across = spec.concat && width >= this.natural * 0.8 ? spec.columns || 1 : 1;
      if (spec.concat) spec.columns = across;
      const widest = panels.slice(0, spec.concat ? this.spec.columns : 1).reduce((sum, panel) => sum + panel.width, 0);
      const room = spec.concat && across === 1 && this.spec.columns > 1 ? 150 : this.natural - widest;
      for (const panel of panels) panel.width = Math.max(140, (width - room - 8) / across);
      if (this.log !== this.isLog()) this.switchAxis(spec);
      let number = 0;
      const bound = new Set();
      eachUnit(spec, (unit, panel) => {
        const says = unit.encoding.description;
        if (says) unit.encoding.tooltip = { field: says.field, type: "nominal" };
        if (unit.encoding.color && unit.encoding.color.legend) unit.encoding.color.legend = null;
        const axes = ["x", "y"].filter((axis) => unit.encoding[axis] && unit.encoding[axis].type === "quantitative"
          && unit.encoding[axis].field && unit.encoding[axis].scale !== null);
        if (!bound.has(panel) && axes.length && (unit.data || panel.data) && unit.mark.type !== "rect" && unit.mark.type !== "text") {
          bound.add(panel);
          unit.params = [{ name: "zoom" + number++, bind: "scales", select: {
            type: "interval", encodings: axes,
            zoom: "wheel![event.ctrlKey || event.shiftKey]",
          } }];
        }
      });
      this.addHovers(spec);
      spec.autosize = { type: "pad" };
      return spec;
    }

    // A line has no marks to point at: invisible ones, where its rows have words.
    addHovers(spec) {
      const walk = (part) => {
        (part.concat || []).forEach(walk);
        if (!part.layer) return;
        part.layer.forEach(walk);
        for (const unit of [...part.layer]) {
          if (!unit.mark || unit.mark.type !== "line") continue;
          const rows = spec.datasets[(unit.data || {}).name] || [];
          if (!rows.length || !rows[0].text) continue;
          const { x, y, detail } = unit.encoding;
          const tooltip = { field: "text", type: "nominal" };
          part.layer.push({ data: unit.data, mark: { type: "point", filled: true, opacity: 0, size: 220 },
            encoding: { x, y, ...(detail && { detail }), tooltip } });
        }
      };
      walk(spec);
    }

    switchAxis(spec) {
      const axis = this.reading.valueAxis;
      const fields = new Set();
      eachUnit(spec, (unit) => [axis, axis + "2"].forEach((channel) => {
        const on = unit.encoding[channel];
        if (on && on.field && !(unit.encoding[axis].scale === null)) fields.add(on.field);
      }));
      const values = Object.values(spec.datasets).flat().flatMap((row) => [...fields].map((field) => row[field]))
        .filter((value) => typeof value === "number" && value > 0);
      if (!values.length) return;
      const [low, high] = [values.reduce((a, b) => Math.min(a, b)), values.reduce((a, b) => Math.max(a, b))];
      const domain = this.log ? [low / 1.3, high * 1.3] : [0, high * 1.06];
      if (this.log) {
        for (const rows of Object.values(spec.datasets)) {
          for (const row of rows) for (const field of fields) {
            if (typeof row[field] === "number" && row[field] < domain[0]) row[field] = domain[0];
          }
        }
      }
      eachUnit(spec, (unit) => {
        const on = unit.encoding[axis];
        if (!on || on.scale === null || on.type === "nominal") return;
        on.scale = { ...on.scale, type: this.log ? "log" : "linear", domain, nice: false, zero: !this.log };
        if (on.axis) delete on.axis.values;
        if (on.title) on.title = on.title.replace(/, log scale.*$/, "") + (this.log ? ", log scale" : "");
        const base = axis + "2";
        if (unit.encoding[base] ? "datum" in unit.encoding[base] : unit.mark.type === "bar") {
          unit.encoding[base] = { datum: domain[0] };
        }
      });
    }

    async embed(target, spec) {
      const vegaEmbed = await library();
      const made = await vegaEmbed(target, spec, { actions: false, renderer: "svg", ast: true, logLevel: 0, tooltip: { disableDefaultStyle: true } });
      target.setAttribute("role", "img");
      target.setAttribute("aria-label", this.figure.querySelector("figcaption").textContent);
      target.querySelector("svg").setAttribute("aria-hidden", "true");
      return made;
    }

    async draw() {
      const width = this.frame.clientWidth || this.natural;
      const holder = document.createElement("div");
      holder.className = "live";
      const made = await this.embed(holder, this.drawn(Math.min(width, Math.max(this.natural, 480))));
      if (this.view) this.view.finalize();
      this.view = made.view;
      this.zooms = this.zoomSignals(made.vgSpec);
      this.frame.replaceChildren(holder);
      this.figure.classList.add("is-live");
      return this.view;
    }

    live() { return this.start || (this.start = this.draw()); }

    zoomSignals(vega) {
      const found = [];
      const walk = (group) => {
        for (const scale of group.scales || []) {
          const raw = scale.domainRaw && scale.domainRaw.signal;
          const named = raw && raw.match(/^(\w+)\["(.*)"\]$/);
          if (named) found.push({ signal: `${named[1]}_${named[2].replace(/\W/g, "_")}`, scale: scale.name, type: scale.type });
        }
        (group.marks || []).forEach(walk);
      };
      walk(vega);
      return found;
    }

    async zoom(factor) {
      const view = await this.live();
      for (const { signal, scale, type } of this.zooms) {
        let domain;
        try { domain = view.scale(scale).domain(); } catch { continue; }
        if (!factor) { view.signal(signal, null); continue; }
        const to = type === "log" ? Math.log : (x) => x;
        const from = type === "log" ? Math.exp : (x) => x;
        const [a, b] = [to(domain[0]), to(domain[domain.length - 1])];
        // The lower end stays: a rate is read against zero.
        view.signal(signal, [domain[0], from(a + (b - a) * factor)]);
      }
      await view.runAsync();
    }

    async saved(kind) {
      const spec = this.drawn(Math.max(this.natural, 480));
      spec.background = "white";
      const made = await this.embed(document.createElement("div"), spec);
      const name = this.figure.id.replace(/^figure-/, "");
      if (kind === "svg") save(`${name}.svg`, new Blob([await made.view.toSVG()], { type: "image/svg+xml" }));
      else {
        const canvas = await made.view.toCanvas(2);
        canvas.toBlob((blob) => save(`${name}.png`, blob));
      }
      made.view.finalize();
    }

    table() {
      if (this.data) { this.data.remove(); this.data = null; return false; }
      const make = (tag, text, parent, attributes = {}) => {
        const element = parent.appendChild(document.createElement(tag));
        if (text !== null) element.textContent = text;
        for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
        return element;
      };
      const title = `Data of: ${this.figure.querySelector("figcaption").textContent}`;
      this.data = make("div", null, this.figure, { class: "scroll data", tabindex: "0", role: "region", "aria-label": title });
      const table = make("table", null, this.data);
      make("caption", title, table);
      const heads = make("tr", null, make("thead", null, table));
      const body = make("tbody", null, table);
      for (const head of Object.values(this.reading.columns)) make("th", head, heads, { scope: "col" });
      for (const row of this.rows()) {
        const line = make("tr", null, body);
        Object.keys(this.reading.columns).forEach((field) => make("td", shown(row[field]), line));
      }
      return true;
    }

    csv() {
      const quoted = (value) => { const text = shown(value); return /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text; };
      const lines = [Object.values(this.reading.columns), ...this.rows().map((row) => Object.keys(this.reading.columns).map((field) => row[field]))];
      save(`${this.figure.id.replace(/^figure-/, "")}.csv`, new Blob([lines.map((line) => line.map(quoted).join(",") + "\n").join("")], { type: "text/csv" }));
    }

    async enlarge() {
      const dialog = document.body.appendChild(document.createElement("dialog"));
      dialog.setAttribute("aria-label", this.figure.querySelector("figcaption").textContent);
      const close = dialog.appendChild(document.createElement("button"));
      close.textContent = "Close";
      close.addEventListener("click", () => dialog.close());
      const frame = dialog.appendChild(document.createElement("div"));
      frame.className = "picture-frame live";
      dialog.addEventListener("close", () => dialog.remove());
      dialog.showModal();
      const spec = this.drawn(dialog.clientWidth - 60);
      for (const panel of spec.concat || [spec]) if (typeof panel.height === "number") panel.height *= 1.7;
      await this.embed(frame, spec);
    }

    tools() {
      const bar = (name) => {
        const element = document.createElement("div");
        element.className = name;
        this.frame.before(element);
        return element;
      };
      const title = this.figure.querySelector("figcaption").textContent;
      const button = (parent, text, label, act, pressed) => {
        const element = parent.appendChild(document.createElement("button"));
        element.type = "button";
        element.textContent = text;
        element.setAttribute("aria-label", `${text}: ${title}`);
        element.title = label;
        if (pressed !== undefined) element.setAttribute("aria-pressed", String(pressed));
        element.addEventListener("click", () => act(element));
        return element;
      };
      const press = (element, on) => element.setAttribute("aria-pressed", String(on));
      const tools = bar("tools");
      button(tools, "Enlarge", "Enlarge", () => this.enlarge());
      button(tools, "Zoom in", "Zoom in, or Ctrl and the wheel", () => this.zoom(0.5));
      button(tools, "Zoom out", "Zoom out", () => this.zoom(2));
      button(tools, "Reset zoom", "Show all again", () => this.zoom(0));
      if (this.reading.valueAxis) {
        button(tools, "Log axis", "Logarithmic or linear axis", (element) => {
          this.log = !this.log;
          press(element, this.log);
          this.start = this.draw();
        }, this.log);
      }
      button(tools, "Table", "Data table", (element) => press(element, this.table()), false);
      button(tools, "CSV", "Save the data as CSV", () => this.csv());
      button(tools, "SVG", "Save as SVG", () => this.saved("svg"));
      button(tools, "PNG", "Save as PNG", () => this.saved("png"));
      const series = this.colours();
      if (series.length < 2) return;
      const chips = bar("tools series");
      for (const [name, colour] of series) {
        const chip = button(chips, name, `Show ${name}`, (element) => {
          const shows = this.hidden.has(name);
          shows ? this.hidden.delete(name) : this.hidden.add(name);
          press(element, shows);
          this.start = this.draw();
        }, true);
        chip.style.setProperty("--swatch", colour);
      }
    }
  }

  function shown(value) {
    return value === null || value === undefined ? "" : typeof value === "number" ? String(Number(value.toPrecision(6))) : String(value).replaceAll("\n", " ");
  }

  function save(name, blob) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }

  // A chart becomes live when a reader points at it or reaches its buttons; on a narrow screen, where its picture would
  // be too small to read, when it comes into view.
  const charts = new Map();
  const near = new IntersectionObserver(async (entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      near.unobserve(entry.target);
      const specs = await allSpecs();
      const chart = new Chart(entry.target, specs[entry.target.id.replace(/^figure-/, "")]);
      charts.set(entry.target, chart);
      entry.target.classList.add("ready");
      if (chart.frame.clientWidth < chart.natural * 0.8) chart.live();
      chart.frame.addEventListener("pointerenter", () => chart.live(), { once: true });
    }
  }, { rootMargin: "200px" });
  $$("figure.chart").forEach((figure) => near.observe(figure));
})();
