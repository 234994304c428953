"use strict";
// Blind votes. What is shown comes from the server without names; names come with the reply to a vote that is kept.
(() => {
  const main = document.getElementById("main");
  const url = main.dataset.url;
  const byId = (id) => document.getElementById(id);
  const PAIR = [
    { verdict: "left", words: "Left is better", keys: ["ArrowLeft", "1"], shown: "←" },
    { verdict: "tie", words: "Tie", keys: ["ArrowDown", "0"], shown: "↓" },
    { verdict: "bad", words: "Both bad", keys: ["x", "b"], shown: "x" },
    { verdict: "right", words: "Right is better", keys: ["ArrowRight", "2"], shown: "→" },
  ];
  const ANSWER = [
    { verdict: "right", words: "Right", keys: ["y", "1"], shown: "y" },
    { verdict: "wrong", words: "Wrong", keys: ["n", "0"], shown: "n" },
  ];
  const NEXT = { verdict: "next", words: "Next", keys: ["Enter", " "], shown: "Enter" };
  const UNDO = { verdict: "undo", words: "Undo", keys: ["u", "Backspace"], shown: "u" };

  let kind = "pair";
  let offer = null;
  let last = null;   // What was voted on last: it can be undone.
  let choices = [];
  let busy = false;

  const say = (words) => { byId("message").textContent = words; byId("message").hidden = !words; };
  const person = () => byId("person").value.trim();

  const offerChoices = (made) => {
    choices = made;
    byId("bar").replaceChildren(...made.map((choice) => {
      const button = document.createElement("button");
      button.type = "button";
      button.dataset.verdict = choice.verdict;
      button.textContent = choice.words;
      const key = document.createElement("kbd");
      key.textContent = choice.shown;
      button.append(key);
      button.addEventListener("click", () => choose(choice.verdict));
      return button;
    }));
    byId("bar").hidden = made.length === 0;
  };

  const sides = (answers, names, verdict) => answers.map((answer, place) => {
    const side = document.createElement("article");
    side.className = "side";
    const heading = document.createElement("h3");
    const place_words = answers.length === 1 ? "Answer" : place ? "Right" : "Left";
    heading.textContent = names ? `${place_words}: ${names[place]}` : place_words;
    if (verdict === (place ? "right" : "left")) side.classList.add("chosen");
    const text = document.createElement("pre");
    text.tabIndex = 0;
    text.setAttribute("aria-label", `${place_words} answer`);
    text.textContent = answer || "(empty)";
    side.append(heading, text);
    return side;
  });

  const show = (names, verdict) => {
    byId("asked").textContent = names ? "Your vote is kept." : kind === "pair" ? "Which answer is better?" : "Is this answer right?";
    byId("question").textContent = offer.question;
    byId("expected").hidden = !offer.target;
    byId("target").textContent = offer.target;
    byId("sides").replaceChildren(...sides(offer.answers, names, verdict));
    byId("ballot").hidden = false;
    byId("ballot").dataset.state = names ? "kept" : "open";
    byId("ballot").dataset.ticket = offer.ticket;
    offerChoices(names ? [UNDO, NEXT] : last ? [UNDO, ...(kind === "pair" ? PAIR : ANSWER)] : kind === "pair" ? PAIR : ANSWER);
    byId("asked").focus({ preventScroll: true });
  };

  const count = (voted, left) => { byId("count").textContent = `${voted} voted, ${left} left`; };

  const next = async () => {
    const reply = await fetch(`${url}/next?${new URLSearchParams({ person: person(), kind })}`);
    if (!reply.ok) throw new Error(await reply.text());
    const told = await reply.json();
    count(told.voted, told.left);
    if (told.left === 0) {
      offer = null;
      byId("ballot").hidden = true;
      byId("ballot").dataset.state = "empty";
      byId("sides").replaceChildren();
      offerChoices(last ? [UNDO] : []);
      return say("There is nothing left to vote on. Thank you.");
    }
    say("");
    offer = told;
    show(null, "");
  };

  const send = async (ticket, verdict) => {
    // A vote whose reply is lost may be sent again: a second one on the same answers replaces the first.
    const body = JSON.stringify({ ticket, person: person(), verdict });
    const reply = await fetch(`${url}/votes`, { method: "POST", headers: { "Content-Type": "application/json" }, body });
    if (!reply.ok) throw new Error(await reply.text());
    return reply.json();
  };

  const undo = async () => {
    if (!last) return;
    await send(last.ticket, "undo");
    offer = last;
    kind = last.kind;
    last = null;
    mark();
    count(offer.voted, offer.left);
    show(null, "");
    say("The vote is taken back. Vote again.");
  };

  const vote = async (verdict) => {
    const kept = await send(offer.ticket, verdict);
    last = offer;
    say("");
    count(offer.voted + 1, offer.left - 1);
    show(kept.names, verdict);
  };

  const choose = async (verdict) => {
    if (busy) return;
    busy = true;
    for (const button of byId("bar").children) button.disabled = true;
    try {
      if (verdict === "next") await next();
      else if (verdict === "undo") await undo();
      else await vote(verdict);
    } catch (error) {
      say(error instanceof TypeError ? "The viewer cannot be reached. Try again: a vote that is sent twice counts once." : error.message);
    } finally {
      busy = false;
      for (const button of byId("bar").children) button.disabled = false;
    }
  };

  const mark = () => {
    for (const button of document.querySelectorAll("[data-kind]")) button.setAttribute("aria-pressed", String(button.dataset.kind === kind));
    const keys = (kind === "pair" ? PAIR : ANSWER).map((choice) => `${choice.shown} ${choice.words.toLowerCase()}`);
    byId("keys").textContent = `Keys: ${[...keys, "Enter next", "u undo"].join(", ")}.`;
  };

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
    if (event.target.tagName === "INPUT") return;
    // Enter and the space bar press the button that has the focus.
    if (event.target.tagName === "BUTTON" && (event.key === "Enter" || event.key === " ")) return;
    const choice = choices.find((one) => one.keys.includes(event.key));
    if (!choice) return;
    event.preventDefault();
    choose(choice.verdict);
  });
  for (const button of document.querySelectorAll("[data-kind]")) {
    button.addEventListener("click", () => { kind = button.dataset.kind; last = null; mark(); choose("next"); });
  }
  byId("person").addEventListener("change", () => { last = null; choose("next"); });
  mark();
  choose("next");
})();
