// The page of `mqlab serve`: the list of the runs, comparisons, the history, and the live view of the run in progress.
(function () {
  "use strict";
  const $ = (id) => document.getElementById(id);
  const token = new URLSearchParams(location.hash.slice(1)).get("token") || "";
  let page = 1, stream = null, watched = "", chosen = [];

  const make = (tag, text, parent) => {
    const element = document.createElement(tag);
    if (text !== undefined) element.textContent = text;
    if (parent) parent.append(element);
    return element;
  };
  const amount = (value) => Number(value).toLocaleString("en", { maximumSignificantDigits: 4 });
  const percent = (share) => `${amount(100 * share)} %`;
  const duration = (s) => s >= 1 ? `${amount(s)} s` : s >= 1e-3 ? `${amount(s * 1e3)} ms` : `${amount(s * 1e6)} \u00b5s`;
  const path = (...parts) => parts.map(encodeURIComponent).join("/");
  const get = async (address) => (await fetch(address)).json();

  async function post(address, body) {
    const answer = await fetch(address, { method: "POST", headers: { "X-Mqlab-Token": token, "Content-Type": "application/json" }, body: JSON.stringify(body || {}) });
    const said = await answer.json();
    $("said").textContent = said.error || Object.entries(said).map((pair) => pair.join(" ")).join(", ");
  }

  // Runs

  function choice(run) {
    const box = make("input");
    box.type = "checkbox";
    box.checked = chosen.includes(run.id);
    box.setAttribute("aria-label", `Compare ${run.id}`);
    box.addEventListener("change", () => {
      // Of three, the one that was chosen first is left out.
      chosen = [...chosen.filter((id) => id !== run.id), ...(box.checked ? [run.id] : [])].slice(-2);
      $("compare").disabled = chosen.length < 2;
      for (const other of $("runs").querySelectorAll("input")) other.checked = chosen.includes(other.value);
    });
    box.value = run.id;
    return box;
  }

  function list(found) {
    page = found.page;
    $("count").textContent = `${found.found} of ${found.total} runs`;
    $("place").textContent = `Page ${found.page} of ${found.pages}`;
    $("previous").disabled = page <= 1;
    $("next").disabled = page >= found.pages;
    $("runs").replaceChildren(...found.runs.map((run) => {
      const row = make("tr");
      make("td", undefined, row).append(choice(run));
      const name = make("th", undefined, row);
      name.scope = "row";
      if (run.has_report) make("a", run.id, name).href = `/runs/${path(run.id)}/report/index.html`;
      else name.textContent = run.id;
      for (const text of [run.title, run.scale, run.systems.join(", "), run.is_live ? "in progress" : run.status]) make("td", text, row);
      return row;
    }));
  }

  async function compare() {
    // The older run is the base.
    const [base, other] = [...chosen].sort();
    const said = await get(`/api/compare/${path(base, other)}`);
    $("compared").textContent = `${said.error || said.reason || said.answer} `;
    if (said.answer) make("a", "All figures", $("compared")).href = `/compare/${path(base, other)}`;
  }

  async function refresh() {
    const before = document.activeElement;
    const found = await get(`/api/runs?${new URLSearchParams({ page, text: $("filter").value })}`);
    list(found);
    if (before && before.type === "checkbox") {
      const same = [...$("runs").querySelectorAll("input")].find((box) => box.value === before.value);
      if (same) same.focus();
    }
    if (found.live.length && !watched) watch(found.live[0]);
  }

  // Small pictures

  const NS = "http://www.w3.org/2000/svg";

  function picture(width, height) {
    const svg = document.createElementNS(NS, "svg");
    svg.setAttribute("width", width);
    svg.setAttribute("height", height);
    svg.setAttribute("aria-hidden", "true");
    svg.add = (tag, attributes) => {
      const element = svg.appendChild(document.createElementNS(NS, tag));
      for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
      return element;
    };
    return svg;
  }

  // A line of the values, from zero unless `least` says otherwise; dots at some places, and a dashed line at a goal.
  function course(values, { least = 0, dots = [], goal = null, width = 90 } = {}) {
    const svg = picture(width, 24);
    const top = Math.max(...values, goal || 0);
    const y = (value) => 21 - 18 * (top > least ? (value - least) / (top - least) : 0.5);
    const step = (width - 6) / Math.max(1, values.length - 1);
    if (goal !== null) svg.add("line", { x1: 0, x2: width, y1: y(goal), y2: y(goal), class: "goal" });
    svg.add("polyline", { points: values.map((value, n) => `${3 + n * step},${y(value)}`).join(" ") });
    for (const place of dots) svg.add("circle", { cx: 3 + place * step, cy: y(values[place]), r: 3 });
    return svg;
  }

  // The run in progress

  // Student's t for 95 %, by the degrees of freedom.
  const T = [12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228];

  function interval(values) {
    const middle = values.reduce((a, b) => a + b) / values.length;
    if (values.length < 2) return [middle, null];
    const variance = values.reduce((sum, value) => sum + (value - middle) ** 2, 0) / (values.length - 1);
    return [middle, (T[values.length - 2] || 2) * Math.sqrt(variance / values.length)];
  }

  function facts(state) {
    const left = state.seconds_left;
    const known = (value) => value !== null && value !== undefined;
    const use = Object.entries(state.usage || {});
    const of = (test, name) => use.filter(([source, values]) => test(source) && known(values[name])).map(([, values]) => values[name]);
    const sum = (values, show) => values.length ? show(values.reduce((a, b) => a + b)) : "not known";
    const broker = (source) => source.startsWith("broker"), agent = (source) => source.startsWith("agent");
    return [
      ["Runs", `${state.runs_done || 0} of ${state.runs_expected || "?"}`],
      ["Time left", known(left) ? `${Math.max(0, Math.round(left))} s` : "not known yet"],
      ["Rate of the last run", known(state.rate) ? `${amount(state.rate)}/s` : "none yet"],
      ["Backlog", sum(of(broker, "depth"), (depth) => `${amount(depth)} messages`)],
      ["Producers held back", sum(of(broker, "blocked"), amount)],
      ["Broker", sum(of(broker, "cpu"), (cpu) => `${percent(cpu)} of a core`)],
      ["Broker's memory", sum(of(broker, "rss"), (bytes) => `${amount(bytes / 2 ** 20)} MiB`)],
      ["Agents", sum(of(agent, "cpu"), (cpu) => `${percent(cpu)} of a core`)],
      ["Broker's disk", sum(of(broker, "written"), (bytes) => `${amount(bytes / 2 ** 20)} MiB/s written`)],
      ["Disk", sum(of((source) => source === "disk", "busy"), (share) => `waited for ${percent(share)} of the time`)],
    ];
  }

  // Of the last runs, those that were small enough are audited already.
  function audit(state) {
    const done = state.runs_done || 0, bad = Math.min(done, state.incomplete || 0);
    if (!done) return ["unknown", "no run is over yet"];
    const { audited, faults: found } = state.ended;
    const faults = Object.values(found).reduce((a, b) => a + b, 0);
    const words = Object.entries(found).map(([name, messages]) => `${amount(messages)} ${name.replaceAll("_", " ")}`).join(", ");
    const text = [`${done - bad} of ${done} runs have complete records`, ...(audited ? [`${audited} audited: ${words}`] : [])];
    return [faults ? "poor" : !bad ? "good" : bad > done / 2 ? "poor" : "fair", `${text.join("; ")}; the pipeline audits every message after the last run`];
  }

  function lights(state) {
    const done = state.runs_done || 0, { disturbed = 0 } = state;
    const noise = !done ? "unknown" : !disturbed ? "good" : disturbed > done / 2 ? "poor" : "fair";
    const [audited, text] = audit(state);
    return [
      [noise, `Noise: ${noise}`, done ? `other work disturbed ${disturbed} of ${done} runs` : "no run is over yet"],
      [audited, `Audit so far: ${audited}`, text],
    ];
  }

  function live(state) {
    $("live").hidden = !state.live;
    if (!state.live) return;
    const where = [state.system, state.label].filter(Boolean).join(" ");
    const phase = state.kind === "measures" ? "Spark computes the measures" : `${where}, ${state.phase || "starts"}`;
    $("live-now").textContent = [state.title || watched, phase].join(": ");
    $("live-progress").max = state.runs_expected || 1;
    $("live-progress").value = state.runs_done || 0;
    $("live-facts").replaceChildren(...facts(state).map(([term, value]) => {
      const pair = make("div");
      make("dt", term, pair);
      make("dd", value, pair);
      return pair;
    }));
    $("live-lights").replaceChildren(...lights(state).map(([grade, name, text]) => {
      const item = make("li");
      item.className = grade;
      make("b", name, item);
      item.append(` ${text}`);
      return item;
    }));
    const points = new Map();
    const key = (one) => JSON.stringify([one.system, one.point]);
    const latencies = new Map(state.ended.latencies.map((one) => [key(one), one]));
    for (const { point, system, goal, rate } of state.rates) {
      const name = key({ system, point });
      if (!points.has(name)) points.set(name, { point, system, goal, values: [] });
      points.get(name).values.push(rate);
    }
    $("live-rates").replaceChildren(...[...points.values()].reverse().map(({ point, system, goal, values }) => {
      const row = make("tr");
      const [middle, half] = interval(values);
      make("td", system || "", row);
      make("th", point, row).scope = "row";
      make("td", values.length, row);
      make("td", amount(middle), row);
      make("td", half === null ? "one run" : `\u00b1 ${amount(half)} (${percent(half / middle)})`, row);
      const reached = goal && half !== null && half / middle < goal ? ", reached" : "";
      make("td", goal ? `${percent(goal)}${reached}` : "none", row);
      const widths = values.map((_, n) => interval(values.slice(0, n + 1))).filter(([, width]) => width !== null).map(([of, width]) => width / of);
      make("td", undefined, row).append(...(widths.length > 1 ? [course(widths, { goal: goal || null })] : []));
      make("td", undefined, row).append(course(values));
      const known = latencies.get(key({ system, point })) || {};
      for (const name of ["p50", "p99", "p999"]) make("td", known[name] ? duration(known[name]) : "", row);
      return row;
    }));
  }

  function watch(run) {
    if (run === watched) return;
    if (stream) stream.close();
    watched = run;
    stream = null;
    if (!run) { $("live").hidden = true; return; }
    stream = new EventSource(`/api/runs/${path(run)}/live`);
    stream.onmessage = (event) => {
      const state = JSON.parse(event.data);
      live(state);
      if (!state.live) { watch(""); refresh(); }
    };
  }

  // History

  function options(select, names, name) {
    select.replaceChildren(...names.map((text) => make("option", text)));
    select.value = name;
  }

  async function trends() {
    const found = await get(`/api/history?${new URLSearchParams({ study: $("history-study").value, metric: $("history-metric").value })}`);
    options($("history-study"), found.studies, found.study);
    options($("history-metric"), found.metrics, found.metric);
    $("history-count").textContent = found.studies.length ? `${found.trends.length} of ${found.found} trends` : "there is no history yet: mqlab history rebuild makes it";
    $("trends").replaceChildren(...found.trends.map((trend) => {
      const row = make("tr");
      make("th", trend.system, row).scope = "row";
      for (const text of [trend.scenario, trend.point, trend.scale, trend.values.length]) make("td", text, row);
      make("td", undefined, row).append(course(trend.values, { least: Math.min(...trend.values), dots: trend.changes.map((change) => change.place), width: 140 }));
      make("td", trend.last, row);
      const changes = make("td", undefined, row);
      for (const change of trend.changes) {
        const size = change.percent === null ? "" : `${change.percent > 0 ? "+" : ""}${amount(change.percent)} % `;
        make("div", `${change.started.slice(0, 16).replace("T", " ")}: ${size}${change.is}, ${change.run_folder}`, changes).className = change.is;
      }
      return row;
    }));
  }

  async function start() {
    const known = await get("/api/studies");
    for (const [id, names] of [["study", known.studies], ["scale", known.scales]]) {
      for (const name of names) make("option", name, $(id)).value = name;
    }
    $("start").hidden = !token;
    $("stop").hidden = !token;
    await refresh();
    setInterval(refresh, 5000);
  }

  const turn = (to) => { page = to; refresh(); };
  $("filter").addEventListener("input", () => turn(1));
  $("previous").addEventListener("click", () => turn(page - 1));
  $("next").addEventListener("click", () => turn(page + 1));
  $("compare").addEventListener("click", compare);
  $("history").addEventListener("toggle", () => { if ($("history").open) trends(); });
  for (const id of ["history-study", "history-metric"]) $(id).addEventListener("change", trends);
  $("stop").addEventListener("click", () => {
    if (confirm(`Stop ${watched}? What was run is kept.`)) post(`/api/runs/${path(watched)}/stop`);
  });
  $("start").addEventListener("submit", (event) => {
    event.preventDefault();
    post("/api/start", { study: $("study").value, scale: $("scale").value });
  });
  start();
})();
