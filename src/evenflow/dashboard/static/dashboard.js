/* The dashboard: numbers, charts, hot keys and events of one query, updated when the server says so. */
"use strict";
(() => {
  const { Chart, make, moment, number, redraw, table, themeButton } = evenflowCharts;
  const at = (id) => document.getElementById(id);
  const saved = at("saved") ? JSON.parse(at("saved").textContent) : null;
  const charts = new Map();
  let chosen = null, picked = Boolean(saved), shown = null, asked = 0, lost = false;

  const ratio = (value) => (value === null || value === undefined ? "–" : value.toFixed(3));
  const bytes = (value) => {
    for (const [limit, unit] of [[2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]])
      if (value >= limit) return `${(value / limit).toFixed(1)} ${unit}`;
    return `${number(value)} B`;
  };
  const known = (values) => values.some((value) => value !== null && value !== undefined);
  const shorter = (seconds) => {
    if (seconds < 90) return `${Math.max(0, Math.round(seconds))} s`;
    if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
    return `${Math.round(seconds / 3600)} h`;
  };

  function chart(id, spec) {
    if (charts.has(id)) charts.get(id).update(spec);
    else charts.set(id, new Chart(at(id), spec));
  }

  function facts(summary) {
    const rows = [
      ["batch", "batch", number(summary.batch)],
      ["rows", "rows", number(summary.rows)],
      ["max-over-mean", "fullest worker / mean", ratio(summary.max_over_mean), summary.max_over_mean < 1.1 ? "good" : ""],
      ["hashed", "hashing would give", ratio(summary.hashed_max_over_mean),
        summary.hashed_max_over_mean > 1.5 ? "poor" : ""],
      ["fullest", "fullest worker", number(summary.fullest)],
      ["workers", "workers", number(summary.workers)],
      ["rate", "rows per second", number(summary.rows_per_second)],
      ["seconds", "batch duration", summary.seconds === null ? "–" : `${number(summary.seconds)} s`],
      ["keys", "distinct keys", number(summary.keys)],
      ["memory", "workers per key", ratio(summary.memory)],
      ["fallbacks", "fallbacks", number(summary.fallbacks), summary.fallbacks ? "poor" : "good"],
      ["late", "late rows, in total", summary.late === null ? "–" : number(summary.totals.late)],
      ["state", "state", summary.state_bytes === null ? "–" : bytes(summary.state_bytes)],
      ["state-keys", "keys with state", number(summary.state_keys)],
      ["plan-age", "plan", summary.plan_time ? `changed ${moment(summary.plan_time).slice(11)}` : "unchanged"],
    ];
    at("facts").replaceChildren(...rows.map(([id, name, value, kind]) => make("div", { class: kind || "", id: `fact-${id}` },
      make("dt", { text: name }), make("dd", { text: value }))));
  }

  function status(summary) {
    if (lost) return;
    const when = summary.time ? moment(summary.time) : "";
    const age = summary.time && !saved ? `, ${shorter(Date.now() / 1000 - summary.time)} ago` : "";
    at("status").textContent = summary.time
      ? `${summary.status}: batch ${summary.batch ?? "–"} at ${when}${age}` : "Waiting for the first batch …";
  }

  function byWorker(snapshot) {
    const { first, rows, hashed, busy, group, mean } = snapshot.workers;
    const size = snapshot.summary.workers || 0;
    const last = (index) => Math.min(first[index] + group, size) - 1;
    const names = first.map((worker, index) =>
      (group === 1 ? `worker ${worker}` : `fullest of workers ${worker} to ${last(index)}`));
    const x = { label: "worker", values: first, bars: group, whole: true, names };
    const each = group === 1 ? "" : ` Each bar is the fullest of ${group} neighbouring workers.`;
    const { batch, hashed_batch: earlier } = snapshot.summary;
    const compared = earlier === batch ? "the same rows" : `the rows of batch ${earlier}, scaled to these,`;
    const series = [{ label: "now", values: rows, bars: true, colour: 0 }];
    if (hashed.length) series.unshift({ label: "with hashing", values: hashed, bars: true, hollow: true, colour: 1 });
    chart("rows-chart", { title: "Rows per worker in the last batch", x, y: { label: "rows" }, series,
      reference: { value: mean, label: "mean" },
      caption: (hashed.length ? `Solid: as placed. Outline: ${compared} placed by Spark's hashing.` : "") + each });
    at("busy-section").hidden = !busy.length;
    if (busy.length) {
      const total = snapshot.summary.busy_over_mean ? ` The busiest has ${ratio(snapshot.summary.busy_over_mean)} of the mean.` : "";
      chart("busy-chart", { title: "Busy seconds per worker in the last batch", x, y: { label: "seconds" },
        series: [{ label: "busy", values: busy, bars: true, colour: 2 }],
        caption: `Time spent on rows, without waiting for input.${total}${each}` });
    }
    at("slow").textContent = snapshot.slow.length
      ? `Slow in each of the last batches: ${snapshot.slow.map((one) => `worker ${one.worker} (${one.times_slower} times)`).join(", ")}.`
      : "";
  }

  function overTime(snapshot) {
    const past = snapshot.history;
    const names = past.time.map((time, index) => `${moment(time)}, batch ${past.batch[index] ?? "–"}`
      + (past.batches[index] > 1 ? ` and ${past.batches[index] - 1} before` : ""));
    const x = { label: "time", values: past.time, time: true, names };
    const covers = (which) => (snapshot.batches_per_point > 1
      ? ` A point covers up to ${number(snapshot.batches_per_point)} batches and shows ${which}.` : "");
    const balance = [{ label: "now", values: past.max_over_mean, colour: 0, dash: 0 }];
    if (known(past.hashed)) balance.unshift({ label: "with hashing", values: past.hashed, colour: 1, dash: 1 });
    balance.push({ label: "hottest key, of all rows", values: past.hot_share, colour: 2, dash: 2, off: true });
    chart("balance-chart", { title: "Fullest worker over mean", x, y: { label: "max / mean" }, series: balance,
      reference: { value: 1, label: "perfect balance" }, caption: `1 is perfect balance.${covers("the worst of them")}` });
    const line = (id, title, label, values, colour, which) => chart(id,
      { title, x, y: { label }, series: [{ label: title, values, colour, dash: 0 }], caption: covers(which).trim() });
    line("speed-chart", "rows per second", "rows / s", past.rows_per_second, 0, "their mean");
    line("seconds-chart", "batch duration", "seconds", past.batch_seconds, 3, "their mean");
    at("state-section").hidden = !known(past.state_bytes);
    if (known(past.state_bytes)) line("state-chart", "state", "bytes", past.state_bytes, 4, "the last of them");
    at("late-section").hidden = !past.late.some((value) => value);
    if (!at("late-section").hidden) line("late-chart", "late rows", "rows", past.late, 1, "their sum");
  }

  function hotKeys(snapshot) {
    const rows = snapshot.hot.map((key) => [key.key, key.rows, `${(key.share * 100).toFixed(2)}%`, key.of_fair_share,
      key.homes.length ? key.homes.join(", ") + (key.home_count > key.homes.length ? `, … (${key.home_count})` : "")
        : "home of its bucket",
      key.since ? moment(key.since) : "–"]);
    at("hot").replaceChildren(rows.length
      ? table(["key", "rows", "share of rows", "of a worker's share", "workers", "hot since"], rows)
      : make("p", { class: "note", text: "No key has a quarter of a worker's share." }));
    if (snapshot.hot.some((key) => key.hash && key.hash === key.key))
      at("hot").append(make("p", { class: "note",
        text: "A key whose value is not known is shown by the 64-bit hash that evenflow.hash_keys gives." }));
    at("hot-json").textContent = JSON.stringify(snapshot.hot, null, 1);
  }

  function workerTable(snapshot) {
    const rows = snapshot.table.map((one) => [one.worker, one.rows, one.of_mean, one.hashed, one.busy]);
    at("worker-table").replaceChildren(table(["worker", "rows", "of the mean", "with hashing", "busy seconds"], rows));
    if (snapshot.table.length < (snapshot.summary.workers || 0))
      at("worker-table").append(make("p", { class: "note",
        text: `The fullest and the emptiest of ${number(snapshot.summary.workers)} workers.` }));
  }

  function events(snapshot) {
    const items = snapshot.events.map((event) => {
      const when = moment(event.time) + (event.batch === null ? "" : `, batch ${event.batch}`);
      const item = make("li", { class: event.kind }, make("strong", { text: event.title }), document.createTextNode(" "),
        make("span", { class: "when", text: when }));
      if (event.text) item.append(make("p", { text: event.text }));
      const numbers = Object.entries(event.numbers);
      if (numbers.length)
        item.append(make("p", { class: "note", text: numbers.map(([name, value]) =>
          `${name} ${typeof value === "number" ? number(value) : value}`).join(" · ") }));
      return item;
    });
    at("events").replaceChildren(...(items.length ? items : [make("li", { text: "Nothing has changed yet." })]));
    at("events-json").textContent = JSON.stringify(snapshot.events, null, 1);
  }

  function show(snapshot) {
    shown = snapshot;
    facts(snapshot.summary);
    status(snapshot.summary);
    byWorker(snapshot);
    overTime(snapshot);
    hotKeys(snapshot);
    workerTable(snapshot);
    events(snapshot);
    at("plan").textContent = snapshot.explain;
    if (at("actions")) at("actions").hidden = !snapshot.steerable;
    document.body.dataset.batch = String(snapshot.summary.batch ?? "");
    document.title = `${snapshot.summary.name} · evenflow`;
  }

  function choose(queries) {
    const select = at("query");
    const names = queries.map((one) => one.id).join("\n");
    if (select.dataset.names !== names) {
      select.dataset.names = names;
      select.replaceChildren(...queries.map((one) => make("option", { value: one.id, text: one.summary.name })));
    }
    const now = queries.find((one) => one.id === chosen);
    if (!now) chosen = queries.length ? queries[0].id : null;
    if (!picked && now?.summary.status !== "running")  // go on with the newest run, unless told otherwise
      chosen = queries.findLast((one) => one.summary.status === "running")?.id ?? chosen;
    if (chosen) select.value = chosen;
    at("choice").hidden = queries.length < 2;
  }

  async function fetched(path) {
    const answer = await fetch(path, { cache: "no-store" });
    if (!answer.ok) throw new Error(`${path}: ${answer.status}`);
    return answer.json();
  }

  async function refresh() {
    const number = ++asked;
    try {
      choose(await fetched("queries.json"));
      if (!chosen) return;
      const snapshot = await fetched(`queries/${encodeURIComponent(chosen)}.json`);
      if (number === asked) show(snapshot);
    } catch (error) { miss(); }
  }

  function miss() {
    lost = true;
    at("status").textContent = "The dashboard's server has ended or cannot be reached; these are its last numbers.";
  }

  async function act(path, body) {
    const answer = await fetch(`queries/${encodeURIComponent(chosen)}/${path}`, { method: "POST",
      headers: { "Content-Type": "application/json", Authorization: `Bearer ${at("token").value}` },
      body: JSON.stringify(body) });
    at("action-result").textContent = (await answer.json()).message;
  }

  function start() {
    themeButton(at("theme"));
    if (saved) {
      choose(saved);
      at("query").addEventListener("change", (event) => {
        chosen = event.target.value;
        show(saved.find((one) => one.id === chosen).snapshot);
      });
      if (chosen) show(saved.find((one) => one.id === chosen).snapshot);
      return;
    }
    at("query").addEventListener("change", (event) => { chosen = event.target.value; picked = true; refresh(); });
    if (at("actions")) {
      at("token").value = new URLSearchParams(location.hash.slice(1)).get("token") || "";
      if (location.hash) history.replaceState(null, "", location.pathname);
      at("rescale-form").addEventListener("submit", (event) => {
        event.preventDefault();
        act("rescale", { workers: Number(at("rescale-workers").value) });
      });
      at("rebalance").addEventListener("click", () => act("rebalance", {}));
    }
    const source = new EventSource("events");
    source.addEventListener("message", () => { lost = false; refresh(); });
    source.addEventListener("error", miss);
    setInterval(() => { if (shown) status(shown.summary); }, 5000);
  }

  start();
})();
