"use strict";
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

  const bar = (model) => {
    const item = document.createElement("li");
    const who = document.createElement("span");
    who.className = "who";
    who.textContent = who.title = model.model;
    const meter = document.createElement("progress");
    meter.max = model.planned || 1;
    meter.value = model.done;
    meter.setAttribute("aria-label", `${model.model}: ${model.done} of ${model.planned}`);
    const words = document.createElement("span");
    words.textContent = `${model.done} / ${model.planned}${model.failed ? ` · ${model.failed} failed` : ""} · ${model.state}`;
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
    const done = told.models.reduce((sum, model) => sum + model.done, 0);
    const planned = told.models.reduce((sum, model) => sum + model.planned, 0);
    state.textContent = `${told.running ? "running" : done >= planned ? "finished" : "not running"}, ${done} of ${planned} trials`;
    const finished = !told.running && done >= planned;
    bars.hidden = finished;
    bars.replaceChildren(...(finished ? [] : told.models.map(bar)));
    if (last && last !== event.data) soon();
    last = event.data;
  });
  stream.addEventListener("problem", (event) => { state.textContent = JSON.parse(event.data); });
  stream.addEventListener("error", () => {
    state.textContent = stream.readyState === EventSource.CLOSED ? "the viewer has ended" : "connection lost, trying again …";
  });
})();
