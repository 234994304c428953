"use strict";
// Keeps the list of runs up to date.
(() => {
  const section = document.getElementById("all-runs");
  if (!section) return;
  const named = (root) => new Map([...root.querySelectorAll("tbody tr")].map((row) => [row.dataset.name, row]));

  const tools = document.getElementById("run-tools");
  const filter = document.getElementById("run-filter");
  const compare = document.getElementById("run-compare");
  const picked = [];

  // Rows that hold every word of the filter are shown; two that are ticked can be compared, the older one first.
  const arrange = () => {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const rows = [...section.querySelectorAll("tbody tr")];
    for (const row of rows) {
      const text = `${row.dataset.name} ${row.textContent}`.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
      const box = row.querySelector("input");
      if (box) box.checked = picked.includes(box.value);
    }
    tools.hidden = rows.length === 0;
    const shown = rows.filter((row) => !row.hidden).length;
    document.getElementById("run-count").textContent = shown === rows.length ? `${rows.length} runs` : `${shown} of ${rows.length} runs`;
    const there = rows.map((row) => row.dataset.name).filter((name) => picked.includes(name));
    const ready = there.length === 2;
    compare.textContent = ready ? `Compare ${there[1]} with ${there[0]}` : "Compare two: tick them";
    compare.setAttribute("aria-disabled", String(!ready));
    if (ready) compare.href = `/compare?before=${encodeURIComponent(there[1])}&after=${encodeURIComponent(there[0])}`;
    else compare.removeAttribute("href");
  };
  filter.addEventListener("input", arrange);
  section.addEventListener("change", (event) => {
    const name = event.target.value;
    if (picked.includes(name)) picked.splice(picked.indexOf(name), 1);
    else picked.push(name);
    while (picked.length > 2) picked.shift();
    arrange();
  });

  const update = (fresh) => {
    const body = section.querySelector("tbody");
    const rows = named(section);
    if (!body || !fresh.querySelector("tbody")) {
      if (Boolean(body) !== Boolean(fresh.querySelector("tbody"))) {
        section.replaceChildren(...fresh.childNodes);
        document.dispatchEvent(new Event("overview-changed"));
      }
      return;
    }
    const now = named(fresh);
    for (const [name, row] of rows) if (!now.has(name)) row.remove();
    // The newest come first: backwards, each new one ends up above those before it. Rows stay where a click has sorted them.
    for (const [name, row] of [...now].reverse()) {
      const old = rows.get(name);
      if (!old) body.prepend(row);
      else if (old.innerHTML !== row.innerHTML) {
        const focused = old.contains(document.activeElement) && document.activeElement.tagName.toLowerCase();
        old.replaceWith(row);
        if (focused) row.querySelector(focused)?.focus();
      }
    }
  };

  const look = async () => {
    if (document.hidden) return;
    try {
      const reply = await fetch("/");
      if (reply.ok) update(new DOMParser().parseFromString(await reply.text(), "text/html").getElementById("all-runs"));
      arrange();
    } catch {
      // The viewer has ended; the list stays as it was.
    }
  };
  arrange();
  setInterval(look, 2000);
})();

// Keeps a run's page up to date while the run goes.
(() => {
  const main = document.querySelector("main[data-events]");
  if (!main) return;
  const bars = document.getElementById("bars");
  const state = document.getElementById("state");
  const overview = document.getElementById("overview");
  let last = "";
  let waiting = null;
  let beganAt = 0;

  const bar = (contestant) => {
    const item = document.createElement("li");
    const who = document.createElement("span");
    who.className = "who";
    who.textContent = who.title = contestant.label;
    const meter = document.createElement("progress");
    meter.max = contestant.planned || 1;
    meter.value = contestant.done;
    meter.setAttribute("aria-label", `${contestant.label}: ${contestant.done} of ${contestant.planned}`);
    const words = document.createElement("span");
    words.textContent = `${contestant.done} / ${contestant.planned}${contestant.failed ? ` · ${contestant.failed} failed` : ""} · ${contestant.state}`;
    item.append(who, meter, words);
    return item;
  };

  const refresh = async () => {
    waiting = null;
    beganAt = performance.now();
    try {
      const reply = await fetch(main.dataset.overview);
      if (!reply.ok) return;
      // Parsed as a document of its own: the server has escaped every text, and no script would run in any case.
      const fresh = new DOMParser().parseFromString(await reply.text(), "text/html");
      overview.replaceChildren(...fresh.body.childNodes);
      document.dispatchEvent(new Event("overview-changed"));
      document.dispatchEvent(new Event("samples-changed"));
    } catch {
      // The stream tells that the connection is gone, and comes back by itself.
    }
  };
  const soon = () => {
    if (waiting === null) waiting = setTimeout(refresh, Math.max(0, 1500 - (performance.now() - beganAt)));
  };

  const stream = new EventSource(main.dataset.events);
  stream.addEventListener("progress", (event) => {
    const told = JSON.parse(event.data);
    const done = told.contestants.reduce((sum, contestant) => sum + contestant.done, 0);
    const planned = told.contestants.reduce((sum, contestant) => sum + contestant.planned, 0);
    state.textContent = `${told.running ? "running" : done >= planned ? "finished" : "not running"}, ${done} of ${planned} trials`;
    const finished = !told.running && done >= planned;
    bars.hidden = finished;
    bars.replaceChildren(...(finished ? [] : told.contestants.map(bar)));
    if (last && last !== event.data) soon();
    last = event.data;
  });
  stream.addEventListener("problem", (event) => { state.textContent = JSON.parse(event.data); });
  stream.addEventListener("error", () => {
    state.textContent = stream.readyState === EventSource.CLOSED ? "the viewer has ended" : "connection lost, trying again …";
  });
})();
