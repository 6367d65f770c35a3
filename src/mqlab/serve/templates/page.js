// The page of `mqlab serve`: the list of the runs, and the live view of the one in progress.
(function () {
  "use strict";
  const $ = (id) => document.getElementById(id);
  const PAGE = 100;
  const token = new URLSearchParams(location.hash.slice(1)).get("token") || "";
  let runs = [], shown = PAGE, stream = null, watched = "";

  const make = (tag, text, parent) => {
    const element = document.createElement(tag);
    if (text !== undefined) element.textContent = text;
    if (parent) parent.append(element);
    return element;
  };
  const amount = (value) => Number(value).toLocaleString("en", { maximumSignificantDigits: 4 });

  async function post(path, body) {
    const answer = await fetch(path, { method: "POST", headers: { "X-Mqlab-Token": token, "Content-Type": "application/json" }, body: JSON.stringify(body || {}) });
    const said = await answer.json();
    $("said").textContent = said.error || Object.entries(said).map((pair) => pair.join(" ")).join(", ");
  }

  function list() {
    const words = $("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
    const found = runs.filter((run) => {
      const text = `${run.id} ${run.study} ${run.title} ${run.scale} ${run.systems.join(" ")} ${run.status}`.toLowerCase();
      return words.every((word) => text.includes(word));
    });
    $("count").textContent = `${found.length} of ${runs.length} runs`;
    const rows = found.slice(0, shown).map((run) => {
      const row = make("tr");
      const name = make("th", undefined, row);
      name.scope = "row";
      if (run.has_report) make("a", run.id, name).href = `/runs/${encodeURIComponent(run.id)}/report/index.html`;
      else name.textContent = run.id;
      for (const text of [run.title, run.scale, run.systems.join(", "), run.is_live ? "in progress" : run.status]) make("td", text, row);
      return row;
    });
    $("runs").replaceChildren(...rows);
    $("more").hidden = found.length <= shown;
  }

  // Student's t for 95 %, by the degrees of freedom.
  const T = [12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228];

  function interval(values) {
    const mean = values.reduce((a, b) => a + b) / values.length;
    if (values.length < 2) return [mean, null];
    const variance = values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / (values.length - 1);
    return [mean, (T[values.length - 2] || 2) * Math.sqrt(variance / values.length)];
  }

  function course(values) {
    const NS = "http://www.w3.org/2000/svg";
    const svg = document.createElementNS(NS, "svg");
    svg.setAttribute("width", "90");
    svg.setAttribute("height", "20");
    svg.setAttribute("aria-hidden", "true");
    const top = Math.max(...values) || 1;
    const line = svg.appendChild(document.createElementNS(NS, "polyline"));
    const step = 86 / Math.max(1, values.length - 1);
    line.setAttribute("points", values.map((value, n) => `${2 + n * step},${18 - 16 * value / top}`).join(" "));
    return svg;
  }

  function live(state) {
    $("live").hidden = !state.live;
    if (!state.live) return;
    const phase = state.kind === "measures" ? "Spark computes the measures" : `${state.label || ""}, ${state.phase || "starts"}`;
    $("live-now").textContent = [state.title || watched, phase].join(": ");
    $("live-progress").max = state.runs_expected || 1;
    $("live-progress").value = state.runs_done || 0;
    const left = state.seconds_left;
    const facts = [["Runs", `${state.runs_done || 0} of ${state.runs_expected || "?"}`], ["Time left", left === null || left === undefined ? "not known yet" : `${Math.max(0, Math.round(left))} s`],
      ["Rate of the last run", state.rate === null || state.rate === undefined ? "none yet" : `${amount(state.rate)}/s`]];
    $("live-facts").replaceChildren(...facts.map(([term, value]) => {
      const pair = make("div");
      make("dt", term, pair);
      make("dd", value, pair);
      return pair;
    }));
    const points = new Map();
    for (const { point, rate } of state.rates) points.set(point, [...(points.get(point) || []), rate]);
    $("live-rates").replaceChildren(...[...points].reverse().map(([point, values]) => {
      const row = make("tr");
      const [mean, half] = interval(values);
      make("th", point, row).scope = "row";
      make("td", values.length, row);
      make("td", amount(mean), row);
      make("td", half === null ? "one run" : `\u00b1 ${amount(half)} (${amount(100 * half / mean)} %)`, row);
      make("td", undefined, row).append(course(values));
      return row;
    }));
  }

  function watch(run) {
    if (run === watched) return;
    if (stream) stream.close();
    watched = run;
    stream = null;
    if (!run) { $("live").hidden = true; return; }
    stream = new EventSource(`/api/runs/${encodeURIComponent(run)}/live`);
    stream.onmessage = (event) => {
      const state = JSON.parse(event.data);
      live(state);
      if (!state.live) { watch(""); refresh(); }
    };
  }

  async function refresh() {
    runs = await (await fetch("/api/runs")).json();
    list();
    const now = runs.find((run) => run.is_live);
    if (now && !watched) watch(now.id);
  }

  async function start() {
    const known = await (await fetch("/api/studies")).json();
    for (const [id, names] of [["study", known.studies], ["scale", known.scales]]) {
      for (const name of names) make("option", name, $(id)).value = name;
    }
    $("start").hidden = !token;
    $("stop").hidden = !token;
    await refresh();
    setInterval(refresh, 5000);
  }

  $("filter").addEventListener("input", () => { shown = PAGE; list(); });
  $("more").addEventListener("click", () => { shown += PAGE; list(); });
  $("stop").addEventListener("click", () => post(`/api/runs/${encodeURIComponent(watched)}/stop`));
  $("start").addEventListener("submit", (event) => {
    event.preventDefault();
    post("/api/start", { study: $("study").value, scale: $("scale").value });
  });
  start();
})();
