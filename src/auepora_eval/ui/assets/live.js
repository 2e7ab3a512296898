// The page of runs in progress: numbers from server-sent events, and new parts of the page where a run changes its form.

import { announce, replaceFragment } from "/assets/shell.js";

const list = document.getElementById("live-runs");
const connection = document.getElementById("connection");
const problem = document.getElementById("live-problem");
let stream = null;
let isRendering = false;
let latest = [];

function shownRuns() {
  return new Map([...list.querySelectorAll("[data-run]")].map((card) => [card.dataset.run, card]));
}

function setText(element, text) {
  if (element && element.textContent !== text) element.textContent = text;
}

function showValues(card, values) {
  for (const [key, [text, note, ratio]] of Object.entries(values)) {
    setText(card.querySelector(`[data-value="${key}"]`), text);
    setText(card.querySelector(`[data-note="${key}"]`), note);
    const bar = card.querySelector(`[data-ratio="${key}"]`);
    if (bar && ratio !== null) bar.value = ratio;
  }
}

function announceChanges(before, after) {
  const names = new Map([...before, ...after].map(([id, card]) => [id, card.dataset.name]));
  const texts = [];
  for (const [id, name] of names) {
    if (!before.has(id)) texts.push(`${name} has started`);
    else if (!after.has(id)) texts.push(`${name} has ended`);
    else if (before.get(id).dataset.stage !== after.get(id).dataset.stage) texts.push(`${name}: ${after.get(id).dataset.stage}`);
  }
  if (texts.length) announce(texts.join(". "));
}

/** Render the lists again: a run has started, ended, or shows other values. */
async function renderRuns() {
  const before = shownRuns();
  const known = latest;
  isRendering = true;
  const isFilled = await replaceFragment(list, "/live/runs");
  isRendering = false;
  if (isFilled) announceChanges(before, shownRuns());
  if (latest !== known) showProgress(latest); // an event came meanwhile
}

function showProgress(runs) {
  problem.replaceChildren();
  latest = runs;
  if (isRendering) return;
  const cards = shownRuns();
  for (const run of runs) if (cards.has(run.id)) showValues(cards.get(run.id), run.values);
  const isSame = !list.querySelector(":scope > [data-failed]") && runs.length === cards.size && runs.every((run) => cards.get(run.id)?.dataset.shape === run.key);
  if (!isSame) renderRuns();
}

function showProblem(message) {
  const text = document.createElement("p");
  text.textContent = message;
  const box = document.createElement("div");
  box.className = "banner bad";
  box.append(text);
  problem.replaceChildren(box);
}

function setConnection(state, text) {
  document.body.dataset.stream = state;
  setText(connection, text);
}

function connect() {
  if (stream !== null) return;
  setConnection("connecting", "Connecting …");
  stream = new EventSource("/live/events");
  stream.addEventListener("open", () => setConnection("open", "Connected: changes appear by themselves."));
  stream.addEventListener("progress", (event) => showProgress(JSON.parse(event.data).runs));
  stream.addEventListener("problem", (event) => showProblem(JSON.parse(event.data).error));
  stream.addEventListener("error", () => {
    const isClosed = stream?.readyState === EventSource.CLOSED;
    const text = isClosed
      ? "Not connected. If the server was started again, open the address that it printed; otherwise reload the page."
      : "The connection was lost. Trying again …";
    if (isClosed || document.body.dataset.stream === "open") announce(text);
    setConnection(isClosed ? "closed" : "connecting", text);
  });
}

function disconnect() {
  stream?.close();
  stream = null;
  setConnection("paused", "Paused while the page is hidden.");
}

function formatDuration(seconds) {
  const [hours, minutes, rest] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60, Math.floor(seconds) % 60];
  if (hours) return `${hours} h ${minutes} min`;
  return minutes ? `${minutes} min ${rest} s` : `${rest} s`;
}

function showTimes() {
  for (const element of list.querySelectorAll("[data-since]")) {
    const seconds = (Date.now() - Date.parse(element.dataset.since)) / 1000;
    setText(element, formatDuration(Math.max(seconds, 0)));
  }
}

// A browser opens few connections to one server: hidden pages give theirs back.
document.addEventListener("visibilitychange", () => (document.hidden ? disconnect() : connect()));
addEventListener("pagehide", disconnect);
addEventListener("pageshow", () => { if (!document.hidden) connect(); });
setInterval(showTimes, 1000);
if (!document.hidden) connect();
