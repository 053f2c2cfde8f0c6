/* Sliders and plots of the page; room.js computes. */
"use strict";

const MODEL = read(DESIGN);
const DAYS = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
const MARGIN = {left: 52, right: 8, top: 8, bottom: 22};
const ALARM = 1.645; // 5 % of the scores without a visit are above
const form = document.getElementById("choice");

function chosen() {
  const value = name => Number(document.getElementById(name).value);
  const separation = Math.floor(7 * 24 / MODEL.hours / value("visits"));
  const starts = Array.from({length: value("visits")}, (_, k) => Math.floor(separation * (k + 0.4)));
  return {
    epsilon: Number((10 ** (value("epsilon") / 10)).toPrecision(2)), delta: 0.01,
    duration: value("duration"), people: value("people"), visits: value("visits"),
    sensor: value("sensor") / 100, separation, starts,
  };
}

/* In percent, rounded up; with a decimal below 20. */
function roundedUp(share) {
  const parts = share < 0.2 ? 10 : 1;
  return Math.ceil(100 * parts * share - 1e-9) / parts + " %";
}

function kelvin(size) {
  return size.toPrecision(2) + " K";
}

function plural(count, noun) {
  return count + " " + noun + (count === 1 ? "" : "s");
}

function add(plot, kind, attributes, text) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", kind);
  for (const name in attributes) element.setAttribute(name, attributes[name]);
  if (text !== undefined) element.textContent = text;
  plot.append(element);
}

/* A step of 1, 2 or 5 times a power of ten, of which about three fit. */
function stepOf(range) {
  const power = 10 ** Math.floor(Math.log10(range / 2));
  return power * [5, 2, 1].find(k => k * power <= range / 2);
}

function draw(id, run, curves, unit, alarm) {
  const plot = document.getElementById(id);
  const width = plot.clientWidth, height = plot.clientHeight;
  plot.setAttribute("viewBox", `0 0 ${width} ${height}`);
  plot.replaceChildren();
  const all = curves.flatMap(curve => curve.values);
  const low = Math.min(...all, 0), high = Math.max(...all, alarm ?? 0);
  const x = hour => MARGIN.left + (width - MARGIN.left - MARGIN.right) * hour / 168;
  const y = value => height - MARGIN.bottom - (height - MARGIN.top - MARGIN.bottom) * (value - low) / (high - low);
  run.present.forEach((is, t) => {
    if (is && !run.present[t - 1]) {
      let end = t;
      while (run.present[end]) end += 1;
      const [from, to] = [x(t * MODEL.hours), x(end * MODEL.hours)];
      add(plot, "rect", {class: "band", x: from, width: to - from, y: MARGIN.top, height: height - MARGIN.top - MARGIN.bottom});
    }
  });
  const step = stepOf(high - low);
  const digits = Math.max(0, -Math.floor(Math.log10(step)));
  for (let value = Math.ceil(low / step) * step; value <= high; value += step) {
    add(plot, "line", {class: "grid", x1: MARGIN.left, x2: width - MARGIN.right, y1: y(value), y2: y(value)});
    add(plot, "text", {x: MARGIN.left - 6, y: y(value) + 4, "text-anchor": "end"}, value.toFixed(digits).replace("-", "\u2212") + unit);
  }
  DAYS.forEach((day, k) => add(plot, "text", {x: x(24 * k + 12), y: height - 6, "text-anchor": "middle"}, day));
  for (const {values, kind} of curves) {
    const points = values.map((value, t) => x(run.hours[t]).toFixed(1) + "," + y(value).toFixed(1));
    add(plot, "polyline", {class: kind, points: points.join(" ")});
  }
  if (alarm) add(plot, "line", {class: "alarm", x1: MARGIN.left, x2: width - MARGIN.right, y1: y(alarm), y2: y(alarm)});
}

function say(id, parts) {
  const paragraph = document.getElementById(id);
  paragraph.replaceChildren(...parts.map((part, k) => {
    if (k % 2 === 0) return part;
    const strong = document.createElement("strong");
    strong.textContent = part;
    return strong;
  }));
}

function refresh() {
  const choice = chosen();
  const units = {epsilon: choice.epsilon, duration: plural(choice.duration * MODEL.hours, "hour"),
    people: choice.people, visits: choice.visits, sensor: choice.sensor.toFixed(2) + " K"};
  for (const output of form.querySelectorAll("output")) output.value = units[output.htmlFor.value];
  const known = consequences(MODEL, choice);
  const run = week(MODEL, choice, known);
  draw("inside", run, [{values: run.air, kind: "truth"}], " K");
  draw("outside", run, [{values: run.published, kind: "published"}, {values: run.estimate, kind: "estimate"}], " K");
  draw("detector", run, [{values: run.scores[0], kind: "truth"}, {values: run.scores[1], kind: "published"}], "", ALARM);
  say("once", ["One visit: found in at most ", roundedUp(known.once), " of the cases behind the gate (guessing: 5 %), in ",
    Math.round(100 * known.foundOpen) + " %", " without it."]);
  const often = [20, 52 * choice.visits].map(count => roundedUp(known.repeated(count)));
  say("often", ["20 visits: ", often[0], ", at most. A year of them (" + 52 * choice.visits + "): ", often[1],
    ". The noise hides a visit, not a habit."]);
  say("price", ["The gate adds noise of ", kelvin(known.std), " to each reading. The room keeps its temperature within ",
    kelvin(known.keptGated), " (standard deviation, nobody there); without the gate, " + kelvin(known.keptOpen) + "."]);
}

let waiting = 0;
function soon() {
  cancelAnimationFrame(waiting);
  waiting = requestAnimationFrame(refresh);
}

form.addEventListener("input", soon);
window.addEventListener("resize", soon);
refresh();
