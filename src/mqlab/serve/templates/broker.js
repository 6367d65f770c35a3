// The page of a running broker: what it has and does, second by second, and the messages of a queue.
(function () {
  "use strict";
  const $ = (id) => document.getElementById(id);
  const token = new URLSearchParams(location.hash.slice(1)).get("token") || "";
  const PAGE = 100, KEPT = 60, PERIOD_MS = 2000;
  let destinations = [], shown = PAGE, chosen = "", user = "";
  const before = new Map(), courses = new Map();

  const make = (tag, text, parent) => {
    const element = document.createElement(tag);
    if (text !== undefined && text !== null) element.textContent = text;
    if (parent) parent.append(element);
    return element;
  };
  const amount = (value) => Number(value).toLocaleString("en", { maximumSignificantDigits: 4 });
  const bytes = (value) => value < 1024 ? `${value} B` : value < 2 ** 20 ? `${amount(value / 1024)} KiB` : `${amount(value / 2 ** 20)} MiB`;
  const moment = (ms) => ms ? new Date(ms).toISOString().slice(0, 19).replace("T", " ") : "";
  const said = (text) => { if ($("said").textContent !== text) $("said").textContent = text; };

  async function get(address) {
    try { return await (await fetch(address)).json(); } catch { return { error: "the page's server has ended" }; }
  }

  // The rates of a destination since the look before.
  function rates(name, counters, now) {
    const last = before.get(name);
    before.set(name, { counters, now });
    if (!last || !counters || !last.counters || now <= last.now) return null;
    const each = (key) => Math.max(0, counters[key] - last.counters[key]) / (now - last.now) * 1000;
    return { put: each("put"), delivered: each("delivered") };
  }

  function course(values) {
    const NS = "http://www.w3.org/2000/svg";
    const svg = document.createElementNS(NS, "svg");
    svg.setAttribute("width", "90");
    svg.setAttribute("height", "20");
    svg.setAttribute("aria-hidden", "true");
    const top = Math.max(...values, 1), step = 86 / (KEPT - 1);
    const line = svg.appendChild(document.createElementNS(NS, "polyline"));
    line.setAttribute("points", values.map((value, n) => `${2 + (KEPT - values.length + n) * step},${18 - 16 * value / top}`).join(" "));
    return svg;
  }

  function list() {
    const words = $("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
    const found = destinations.filter((one) => words.every((word) => `${one.name} ${one.topic || ""}`.toLowerCase().includes(word)));
    $("count").textContent = `${found.length} of ${destinations.length}`;
    $("more").hidden = found.length <= shown;
    const focused = document.activeElement && document.activeElement.dataset.name;
    $("destinations").replaceChildren(...found.slice(0, shown).map((one) => {
      const row = make("tr");
      make("th", one.name, row).scope = "row";
      for (const value of [one.topic || "", amount(one.messages), bytes(one.bytes), one.producers, one.consumers]) make("td", value, row);
      for (const key of ["put", "delivered"]) make("td", one.rates ? amount(one.rates[key]) : "", row);
      make("td", undefined, row).append(course(courses.get(one.key) || []));
      const last = make("td", undefined, row);
      if (!one.name.startsWith("queue:")) return row;
      const look = make("button", "Look", last);
      look.type = "button";
      look.dataset.name = one.name;
      look.setAttribute("aria-label", `Look at ${one.name}`);
      look.addEventListener("click", () => open(one.name));
      if (focused === one.name) setTimeout(() => look.focus());
      return row;
    }));
  }

  async function refresh() {
    const found = await get("/api/overview");
    if (found.error) { said(`The broker is not available: ${found.error}`); return; }
    user = found.user;
    said(user ? `logged in as ${user}` : "read-only: start the page with --user to change anything");
    const now = performance.now();
    // Subscriptions without a name of their own may share one.
    const seen = new Map();
    destinations = found.destinations.map((one) => {
      seen.set(one.name, (seen.get(one.name) || 0) + 1);
      const key = `${one.name} ${seen.get(one.name)}`;
      return { ...one, key, rates: rates(key, one.counters, now) };
    });
    for (const { key, rates: now } of destinations) {
      if (now) courses.set(key, [...(courses.get(key) || []), now.put].slice(-KEPT));
    }
    const status = found.status, total = (key) => destinations.reduce((sum, one) => sum + (one.rates ? one.rates[key] : 0), 0);
    const facts = [["Messages", amount(status.messages)], ["Queues", status.queues], ["Topics", status.topics], ["Subscriptions", status.subscriptions],
      ["Connections", status.connections], ["In", `${amount(total("put"))}/s`], ["Out", `${amount(total("delivered"))}/s`],
      ["Memory", bytes(status.memory)], ["Producers held back", status.held_producers], ["Journal", bytes(status.journal_length)], ["Syncs", amount(status.syncs)]];
    $("facts").replaceChildren(...facts.map(([term, value]) => {
      const pair = make("div");
      make("dt", term, pair);
      make("dd", value, pair);
      return pair;
    }));
    list();
    const connections = found.connections;
    $("connections-said").textContent = connections === null ? "Only a user with the right admin on all sees the connections." : "";
    $("connections").replaceChildren(...(connections || []).map((one) => {
      const row = make("tr");
      make("th", one.number, row).scope = "row";
      for (const value of [one.user, one.application, one.client_id, one.peer, one.producers, one.consumers, moment(one.connected_ms)]) make("td", value, row);
      return row;
    }));
  }

  async function open(name) {
    chosen = name;
    const found = await get(`/api/browse?${new URLSearchParams({ name })}`);
    $("queue").hidden = false;
    $("queue-title").textContent = name;
    $("purge").hidden = $("delete").hidden = !(token && user);
    $("messages-caption").textContent = found.error || (found.messages.length ? `The first ${found.messages.length} messages${found.more ? "; there are more" : ""}. They stay in the queue.` : "There is no message that could be delivered now.");
    $("messages").replaceChildren(...(found.messages || []).map((message) => {
      const row = make("tr");
      make("th", message.id, row).scope = "row";
      const properties = Object.entries(message.properties).map((pair) => pair.join(" = ")).join(", ");
      for (const value of [moment(message.timestamp), message.priority, message.persistent ? "yes" : "no", properties, amount(message.size)]) make("td", value, row);
      make("code", message.body !== undefined ? message.body : message.body_base64 ? `base64: ${message.body_base64}` : "", make("td", undefined, row));
      return row;
    }));
    $("queue").scrollIntoView({ block: "nearest" });
  }

  async function change(action) {
    if (!confirm(`${action} ${chosen}? This cannot be undone.`)) return;
    const answer = await fetch(`/api/${action}`, { method: "POST", headers: { "X-Mqlab-Token": token, "Content-Type": "application/json" }, body: JSON.stringify({ name: chosen }) });
    const found = await answer.json();
    await refresh();
    if (found.error) said(found.error);
    else if (action === "delete") $("queue").hidden = true;
    else open(chosen);
  }

  $("filter").addEventListener("input", () => { shown = PAGE; list(); });
  $("more").addEventListener("click", () => { shown += PAGE; list(); });
  $("purge").addEventListener("click", () => change("purge"));
  $("delete").addEventListener("click", () => change("delete"));
  $("close").addEventListener("click", () => { $("queue").hidden = true; });
  refresh();
  setInterval(refresh, PERIOD_MS);
})();
