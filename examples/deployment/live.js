"use strict";
const MARGIN = {left: 52, right: 8, top: 6, bottom: 22};
const note = document.getElementById("status");
let failures = 0;

function add(plot, kind, attributes, text) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", kind);
  for (const name in attributes) element.setAttribute(name, attributes[name]);
  if (text !== undefined) element.textContent = text;
  plot.append(element);
}

/* A step of 1, 2 or 5 times a power of ten, of which two to five fit. */
function stepOf(range) {
  const power = 10 ** Math.floor(Math.log10(range / 2));
  return power * [5, 2, 1].find(k => k * power <= range / 2);
}

function draw(id, run, room, curves, unit, alarm) {
  const plot = document.getElementById(id);
  const width = plot.clientWidth, height = plot.clientHeight;
  const bottom = height - MARGIN.bottom, right = width - MARGIN.right;
  plot.setAttribute("viewBox", `0 0 ${width} ${height}`);
  plot.replaceChildren();
  const values = curves.flatMap(curve => curve.points.map(point => point[1]));
  const low = Math.min(...values, -0.05), high = Math.max(...values, alarm ?? 0.05);
  const x = hour => MARGIN.left + (right - MARGIN.left) * hour / run.duration;
  const y = value => bottom - (bottom - MARGIN.top) * (value - low) / (high - low);
  room.present.forEach(([hour, present], t) => {
    if (!present || (t > 0 && room.present[t - 1][1])) return;
    let end = t;
    while (room.present[end + 1]?.[1]) end += 1;
    const until = room.present[end][0] + 0.25;
    add(plot, "rect", {class: "band", x: x(hour), width: x(until) - x(hour), y: MARGIN.top, height: bottom - MARGIN.top});
  });
  const tick = stepOf(high - low);
  const digits = Math.max(0, -Math.floor(Math.log10(tick)));
  for (let value = Math.ceil(low / tick) * tick; value <= high; value += tick) {
    add(plot, "line", {class: "grid", x1: MARGIN.left, x2: right, y1: y(value), y2: y(value)});
    add(plot, "text", {x: MARGIN.left - 6, y: y(value) + 4, "text-anchor": "end"}, value.toFixed(digits).replace("-", "\u2212") + unit);
  }
  const every = [1, 3, 6, 12, 24, 48, 96].find(hours => hours >= run.duration / 7) ?? 168;
  for (let hour = 0; hour <= run.duration; hour += every) {
    const anchor = hour === 0 ? "start" : x(hour) > right - 10 ? "end" : "middle";
    add(plot, "text", {x: x(hour), y: height - 6, "text-anchor": anchor}, hour + " h");
  }
  for (const hour of run.kills) add(plot, "line", {class: "kill", x1: x(hour), x2: x(hour), y1: MARGIN.top, y2: bottom});
  if (alarm) add(plot, "line", {class: "alarm", x1: MARGIN.left, x2: right, y1: y(alarm), y2: y(alarm)});
  for (const {points, kind, dots} of curves) {
    const places = points.map(([hour, value]) => [x(hour).toFixed(1), y(value).toFixed(1)]);
    if (dots) for (const [cx, cy] of places) add(plot, "circle", {cx, cy, r: 2});
    else add(plot, "polyline", {class: kind, points: places.join(" ")});
  }
}

function show(run) {
  for (const [name, room] of Object.entries(run.rooms)) {
    draw(name + "-inside", run, room, [{points: room.truth, kind: "truth"}], " K");
    draw(name + "-outside", run, room, [
      {points: room.published, kind: "published", dots: true},
      {points: room.estimate, kind: "estimate"}], " K");
    draw(name + "-scores", run, room, [
      {points: room.scores.true, kind: "truth"},
      {points: room.scores.published, kind: "published"}], "", run.alarm);
  }
  const visits = run.visits + (run.visits === 1 ? " visit" : " visits");
  document.getElementById("found").textContent =
    `${visits} so far: the best test of what is published finds them in at most ${(100 * run.found).toFixed(1)} % of such runs (guessing: 5 %).`;
  document.getElementById("ledger").textContent = "Ledger: " + run.ledger;
}

async function ask(path) {
  await fetch(path, {method: "POST", headers: {"X-Live-Page": "1"}});
}

async function refresh() {
  try {
    const answer = await fetch("signals.json", {cache: "no-store"});
    show(await answer.json());
    note.textContent = "The run goes on.";
    failures = 0;
  } catch (error) {
    failures += 1;
  }
  if (failures < 5) {
    setTimeout(refresh, 300);
  } else {
    note.textContent = "The run is over.";
    for (const button of document.querySelectorAll("button")) button.disabled = true;
  }
}

for (const button of document.querySelectorAll("button")) {
  button.addEventListener("click", () => ask(button.dataset.asks).catch(() => {}));
}
refresh();
