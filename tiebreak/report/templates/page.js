"use strict";
// Sorting of tables, and the browser of samples. Whatever a model wrote is only ever put in place as text.
(() => {
  const MARKS = { right: "✓", wrong: "✗", none: "–", failed: "!", unjudged: "?" };
  const WORDS = { right: "right", wrong: "wrong", none: "no answer", failed: "failed", unjudged: "not judged" };
  const PER_PAGE = 25;

  const make = (name, kind, text, ...children) => {
    const element = document.createElement(name);
    if (kind) element.className = kind;
    if (text !== undefined && text !== null) element.textContent = text;
    element.append(...children);
    return element;
  };

  // --- tables ---
  const valueOf = (cell) => {
    const raw = cell.dataset.value ?? cell.textContent.trim();
    const number = Number(raw.replace(/[,$%s ]/g, ""));
    return raw !== "" && !Number.isNaN(number) ? number : raw.toLowerCase();
  };
  const compare = (a, b) => (typeof a === typeof b ? (a < b ? -1 : a > b ? 1 : 0) : typeof a === "number" ? -1 : 1);

  const sortBy = (table, place, descending) => {
    for (const body of table.tBodies) {
      const rows = [...body.rows].map((row) => [valueOf(row.cells[place]), row]);
      rows.sort(([a], [b]) => (descending ? compare(b, a) : compare(a, b)));
      body.append(...rows.map(([, row]) => row));
    }
  };

  const makeSortable = (table) => {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, place) => {
      if (head.querySelector("button")) return;
      const button = make("button", "", head.textContent);
      button.type = "button";
      head.replaceChildren(button);
      button.addEventListener("click", () => {
        const falling = head.classList.contains("n") ? head.ariaSort !== "descending" : head.ariaSort === "ascending";
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", falling ? "descending" : "ascending");
        sortBy(table, place, falling);
      });
    });
  };
  const makeAllSortable = () => document.querySelectorAll("table.sortable").forEach(makeSortable);
  makeAllSortable();
  document.addEventListener("overview-changed", makeAllSortable);

  // --- where samples come from ---
  const section = document.getElementById("samples");
  if (!section) return;
  const labels = JSON.parse(section.dataset.labels);

  const unpack = async (text) => {
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
    return new Response(stream).json();
  };

  const ORDERS = {
    readings: (a, b) => b.filters.includes("readings_differ") - a.filters.includes("readings_differ"),
    sample: () => 0,
    hardest: (a, b) => a.mean - b.mean,
    apart: (a, b) => b.spread - a.spread || a.mean - b.mean,
    slowest: (a, b) => b.slowest_s - a.slowest_s,
  };

  const carried = () => {
    let rows, words;
    const load = async () => {
      rows ??= await unpack(document.getElementById("data").textContent.trim());
      return rows;
    };
    const textOf = (row) => {
      const said = row.answers.flat().flatMap((a) => [a.text ?? "", a.answer ?? "", a.note ?? "", a.work?.diff ?? ""]);
      return [row.sample, row.prompt, row.target, ...said].join("\n").toLowerCase();
    };
    return async ({ q, only, category, sort, page }) => {
      const all = await load();
      if (q) words ??= all.map(textOf);
      const wanted = q.toLowerCase();
      const found = all.filter((row, place) =>
        (!only || row.filters.includes(only)) && (!category || row.category === category) && (!q || words[place].includes(wanted)));
      found.sort(ORDERS[sort]);
      return { total: found.length, rows: found.slice(page * PER_PAGE, (page + 1) * PER_PAGE) };
    };
  };

  const served = (url) => async (asked) => {
    const reply = await fetch(`${url}?${new URLSearchParams({ ...asked, per_page: PER_PAGE })}`);
    if (!reply.ok) throw new Error(await reply.text());
    return reply.json();
  };

  // --- how they are shown ---
  const colouredDiff = (text) => {
    const kinds = { "+": "added", "-": "removed", "@": "hunk" };
    const kind = (line) => (/^(\+\+\+|---) ("?[ab]\/|\/dev\/null)/.test(line) ? "hunk" : kinds[line[0]] ?? "same");
    return make("pre", "diff", undefined, ...text.trimEnd().split("\n").map((line) => make("span", kind(line), line || " ")));
  };
  const folded = (title, ...children) => make("details", "", undefined, make("summary", "", title), ...children);
  const steps = (work) => {
    const list = make("ol", "steps");
    const strip = make("div", "walk");
    const places = [];
    work.steps.forEach(([at, kind, actor, text, went, took], place) => {
      const facts = [`${place + 1}. ${kind}`, actor, went === "bad" ? WENT[kind] ?? "failed" : "", `at ${at.toFixed(1)} s`, took];
      const head = make("div", "who", facts.filter(Boolean).join(" · "));
      const item = make("li", `${kind} ${went}`, undefined, head, ...foldedText(text));
      item.tabIndex = -1;
      list.append(item);
      places.push(stepLink(item, `${place + 1}`, `${facts.filter(Boolean).join(" · ")}: ${text.slice(0, 120)}`, `${kind} ${went}`));
    });
    strip.append(...places);
    if (work.more_steps) list.append(make("li", "who", `${work.more_steps} more steps`));
    return make("div", "attempt", undefined, strip, ...whatFailed(work.steps, list), list);
  };
  const WENT = { check: "does not pass", error: "" };
  const stepLink = (item, text, title, kind) => {
    const link = make("button", kind, text);
    link.type = "button";
    link.title = title;
    link.addEventListener("click", () => {
      item.scrollIntoView({ block: "center" });
      item.focus({ preventScroll: true });
    });
    return link;
  };
  const whatFailed = (steps, list) => {
    const bad = steps.map((step, place) => [step, place]).filter(([step]) => step[4] === "bad");
    if (!bad.length) return [make("p", "because", "No step failed.")];
    const shown = bad.slice(0, MOST_LINKS).map(([[, kind, , text], place]) =>
      stepLink(list.children[place], `${place + 1}`, `${kind}: ${text.slice(0, 120)}`, `${kind} bad`));
    const more = bad.length > shown.length ? ` and ${bad.length - shown.length} more` : "";
    return [make("p", "because failing", `${bad.length} of ${steps.length} steps failed: `, ...shown, more)];
  };
  const MOST_LINKS = 12, SHOWN_LINES = 8;
  const foldedText = (text) => {
    if (!text) return [];
    const lines = text.trimEnd().split("\n");
    if (lines.length <= SHOWN_LINES) return [make("pre", "", text)];
    const rest = folded(`${lines.length - SHOWN_LINES + 2} more lines`, make("pre", "", lines.slice(SHOWN_LINES - 2).join("\n")));
    return [make("pre", "", lines.slice(0, SHOWN_LINES - 2).join("\n")), rest];
  };

  const money = (usd) => usd.toLocaleString("en", { maximumSignificantDigits: 2, maximumFractionDigits: 20 });
  const showAnswer = (label, answer, several) => {
    const facts = [];
    if (answer.outcome && answer.outcome !== "answered" && answer.outcome !== "unjudged") facts.push(answer.outcome.replaceAll("_", " "));
    if (answer.score !== undefined && answer.score !== 0 && answer.score !== 1) facts.push(`score ${answer.score.toFixed(2)}`);
    if (answer.answer !== undefined) facts.push(`read as “${answer.answer}”`);
    if (answer.seconds) facts.push(`${answer.seconds.toFixed(2)} s`);
    if (answer.second !== undefined) facts.push(`the second rule says ${answer.second >= 1 ? "right" : "wrong"}`);
    if (answer.cost_usd) facts.push(`$${money(1000 * answer.cost_usd)} per 1,000`);
    if (answer.output_tokens) facts.push(`${answer.output_tokens} tokens`);
    const verdict = make("p", "verdict", undefined, make("b", answer.mark, `${MARKS[answer.mark]} ${WORDS[answer.mark]}`), facts.length ? ` · ${facts.join(" · ")}` : "");
    const card = make("article", `answer ${answer.mark}${answer.work ? " wide" : ""}`, undefined, make("h5", "", several ? `${label} · ${(answer.repeat ?? 0) + 1}` : label), verdict);
    if (answer.text) card.append(make("pre", "", answer.text));
    if (answer.said) {
      const list = make("ol", "steps");
      for (const [role, text] of answer.said) list.append(make("li", "", undefined, make("div", "who", role), make("pre", "", text)));
      card.append(folded(`Conversation (${answer.said.length} messages)`, list));
    }
    if (answer.length) card.append(make("p", "because", `Cut: the whole has ${answer.length.toLocaleString("en")} characters.`));
    if (answer.note) card.append(make("p", "because", answer.note));
    for (const judge of answer.judges ?? []) {
      const title = `${judge.who}: ${judge.value === undefined ? "no verdict" : judge.value.toFixed(2)}`;
      card.append(judge.said ? folded(title, make("pre", "", judge.said)) : make("p", "because", title));
    }
    if (answer.work) {
      card.append(make("p", "because", answer.work.summary));
      if (answer.work.diff) card.append(folded("Changes", colouredDiff(answer.work.diff)));
      if (answer.work.tests) card.append(folded(answer.work.suite, make("pre", "", answer.work.tests)));
      if (answer.work.check) card.append(folded("Check output", make("pre", "", answer.work.check)));
      if (answer.work.steps?.length) card.append(folded(`Transcript (${answer.work.steps.length} steps)`, steps(answer.work)));
    }
    return card;
  };

  const size = (bytes) => (bytes < 1024 ? `${bytes} bytes` : `${(bytes / 1024).toLocaleString("en", { maximumFractionDigits: 1 })} kB`);
  const showMedia = (media) => {
    const box = make("figure", "media");
    const served = section.dataset.url?.replace(/samples$/, `media/${media.digest}`);
    const source = media.src ?? (media.media_type.startsWith("image/") ? served : undefined);
    if (source) {
      const image = make("img");
      image.loading = "lazy";
      image.alt = media.name ?? "";
      image.src = source;
      box.append(image);
    }
    box.append(make("figcaption", "", `${media.name ?? ""} · ${media.media_type} · ${size(media.size_bytes ?? 0)}`));
    return box;
  };

  const inside = (row) => {
    const body = make("div", "inside");
    if (row.prompt) body.append(make("h4", "", "Asked"), make("pre", "", row.prompt));
    for (const media of row.media ?? []) body.append(showMedia(media));
    if (row.target) body.append(make("h4", "", "Right answer"), make("pre", "", row.target));
    const answers = make("div", "answers");
    row.answers.forEach((own, place) => own.forEach((answer) => answers.append(showAnswer(labels[place], answer, own.length > 1))));
    body.append(make("h4", "", "Answers"), answers);
    return body;
  };

  const markOf = (own) => {
    if (!own.length) return ["none", "·"];
    const best = ["right", "wrong", "none", "failed", "unjudged"].find((kind) => own.every((a) => a.mark === kind));
    return best ? [best, MARKS[best]] : ["none", `${own.filter((a) => a.mark === "right").length}`];
  };

  let opened = 0;
  const showRow = (row) => {
    const strip = make("span", "strip");
    strip.ariaHidden = "true";
    row.answers.forEach((own, place) => {
      const [kind, mark] = markOf(own);
      const cell = make("i", kind, mark);
      cell.title = `${labels[place]}: ${own.map((a) => WORDS[a.mark]).join(", ") || "not asked"}`;
      strip.append(cell);
    });
    const right = row.answers.filter((own) => own.length && own.every((a) => a.mark === "right")).length;
    const name = [row.sample, row.category].filter(Boolean).join(" · ");
    const button = make("button", "row", undefined, make("span", "ask", (row.prompt || row.sample).trim().replace(/\s+/g, " ").slice(0, 300)), strip,
      make("span", "id", name), make("span", "hidden", `, ${right} of ${row.answers.length} right`));
    button.type = "button";
    button.setAttribute("aria-expanded", "false");
    const item = make("li", "", undefined, button);
    button.addEventListener("click", () => {
      const body = item.querySelector(".inside");
      button.setAttribute("aria-expanded", body ? "false" : "true");
      if (body) return body.remove();
      const made = inside(row);
      made.id = `inside-${(opened += 1)}`;
      button.setAttribute("aria-controls", made.id);
      item.append(made);
    });
    return item;
  };

  // --- what is asked for ---
  const form = section.querySelector("form");
  const list = document.getElementById("rows");
  const told = document.getElementById("found");
  const before = document.getElementById("before");
  const after = document.getElementById("after");
  const find = section.dataset.url ? served(section.dataset.url) : carried();
  let page = 0;
  let turn = 0;

  const show = async () => {
    const mine = (turn += 1);
    const field = (name) => form.elements[name]?.value ?? "";
    const asked = { q: field("q").trim(), only: field("only"), category: field("category"), sort: field("sort") || "readings", page };
    let found;
    try {
      found = await find(asked);
    } catch (error) {
      told.textContent = `The samples could not be read: ${error.message}`;
      return;
    }
    if (mine !== turn) return;
    const pages = Math.max(1, Math.ceil(found.total / PER_PAGE));
    list.replaceChildren(...found.rows.map(showRow));
    told.textContent = `${found.total.toLocaleString("en")} sample${found.total === 1 ? "" : "s"} found.`;
    document.getElementById("page").textContent = `Page ${page + 1} of ${pages}`;
    before.disabled = page === 0;
    after.disabled = page + 1 >= pages;
  };
  let waiting;
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", (event) => {
    page = 0;
    clearTimeout(waiting);
    waiting = setTimeout(show, event.target.name === "q" ? 150 : 0);
  });
  before.addEventListener("click", () => { page -= 1; show(); });
  after.addEventListener("click", () => { page += 1; show(); });
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && !/^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement.tagName)) {
      event.preventDefault();
      form.elements.q.focus();
    }
  });
  document.addEventListener("samples-changed", () => { if (!list.querySelector("[aria-expanded=true]")) show(); });
  show();
})();
