/* A room behind the gate, from a design file: the formulas of privcontrol in JavaScript.

Nothing here draws. The page shows what `consequences` and `week` return, and the tests
run the same file in node beside the library. Matrices are arrays of rows. */
"use strict";

const LAGS = 3000; // of the whitened response: its slowest mode is below 1e-9 by then
const FALSE_ALARMS = 0.05;
const LARGEST_SEARCH = 12; // samples whose patterns of signs are all tried
const COMFORT = {air: 1, heat: 0.02}; // the weights of the thermostat's cost
const DRAUGHT = [0.02, 0.002]; // std of what else moves air and walls in a sample [K]

/* -- Matrices ---------------------------------------------------------------- */

function product(P, Q) {
  const columns = Q[0].length;
  return P.map(row => {
    const sums = new Array(columns).fill(0);
    for (let k = 0; k < row.length; k++) {
      const p = row[k], other = Q[k];
      if (p !== 0) for (let j = 0; j < columns; j++) sums[j] += p * other[j];
    }
    return sums;
  });
}

function combined(P, Q, factor = 1) {
  return P.map((row, i) => row.map((p, j) => p + factor * Q[i][j]));
}

function transposed(P) {
  return P[0].map((_, j) => P.map(row => row[j]));
}

function scaled(P, factor) {
  return P.map(row => row.map(p => factor * p));
}

function zeros(rows, columns) {
  return Array.from({length: rows}, () => new Array(columns).fill(0));
}

function diagonal(values) {
  return values.map((value, i) => values.map((_, j) => (i === j ? value : 0)));
}

function blocks(P, Q) {
  const right = Q[0].length;
  return [
    ...P.map(row => [...row, ...new Array(right).fill(0)]),
    ...Q.map(row => [...new Array(P[0].length).fill(0), ...row]),
  ];
}

/* -- The design file --------------------------------------------------------- */

/* A number of a design file, which has all 53 bits: "0x1.8p-2". */
function fromHex(text) {
  const [, sign, whole, part, power] = /^(-?)0x(\d)\.([0-9a-f]+)p([+-]?\d+)$/.exec(text);
  const digits = parseInt(whole + part, 16) * 16 ** -part.length;
  return (sign ? -1 : 1) * digits * 2 ** Number(power);
}

function fromFile(matrix) {
  const [rows, columns] = matrix.shape;
  const entry = (i, j) => fromHex(matrix.floats[i * columns + j]);
  return Array.from({length: rows}, (_, i) => Array.from({length: columns}, (_, j) => entry(i, j)));
}

/* The plant and the noise of a design file, with the whitened response to one person. */
function read(file) {
  const {plant, parts: [{shaping}], request} = file;
  const room = {A: fromFile(plant.A), B: fromFile(plant.B), C: fromFile(plant.C)};
  const noise = {A: fromFile(shaping.A), B: fromFile(shaping.B), C: fromFile(shaping.C), D: fromFile(shaping.D)};
  return {
    room, noise,
    hours: fromHex(plant.dt.float),
    duration: request.adjacency.duration,
    correlations: correlations(room, noise),
    std: stationary(noise),
    gain: thermostat(room),
    known: new Map(), // of each duration
  };
}

/* The shift of one stay of so many samples at most, of one person, behind the unit noise,
and how alike two such stays are at each lag and all later ones. */
function stays(model, duration) {
  if (!model.known.has(duration)) {
    const shift = shiftOfStay(model, duration);
    model.known.set(duration, {shift, alike: alike(model, duration, shift)});
  }
  return model.known.get(duration);
}

/* How alike the whitened responses to two impulses are, at each lag. */
function correlations(room, noise) {
  let state = transposed([room.B.map(row => row[1])]);
  let own = zeros(noise.A.length, 1);
  const left = [];
  for (let t = 0; t < LAGS; t++) {
    const white = (product(room.C, state)[0][0] - product(noise.C, own)[0][0]) / noise.D[0][0];
    left.push(white);
    own = combined(product(noise.A, own), scaled(noise.B, white));
    state = product(room.A, state);
  }
  return left.map((_, lag) => {
    let sum = 0;
    for (let t = 0; t + lag < LAGS; t++) sum += left[t] * left[t + lag];
    return sum;
  });
}

/* -- Tests and promises ------------------------------------------------------ */

/* The standard normal distribution function. */
function normal(x) {
  const z = Math.abs(x) / Math.SQRT2;
  let tail;
  if (z < 2.5) {
    let term = z, sum = z;
    for (let k = 1; Math.abs(term) > 1e-18 * sum; k++) {
      term *= -z * z / k;
      sum += term / (2 * k + 1);
      if (k > 200) break;
    }
    tail = 0.5 - sum / Math.sqrt(Math.PI);
  } else {
    let fraction = 0;
    for (let k = 120; k > 0; k--) fraction = k / 2 / (z + fraction);
    tail = Math.exp(-z * z) / Math.sqrt(Math.PI) / (z + fraction) / 2;
  }
  return x < 0 ? tail : 1 - tail;
}

/* Where an increasing function reaches a level. */
function solved(increasing, level, low, high) {
  for (let k = 0; k < 200; k++) {
    const middle = (low + high) / 2;
    if (increasing(middle) < level) low = middle; else high = middle;
  }
  return low;
}

/* The shift of a Gaussian that meets (epsilon, delta) exactly. */
function shiftOf(epsilon, delta) {
  const lost = y => normal(y / 2 - epsilon / y) - Math.exp(epsilon) * normal(-y / 2 - epsilon / y);
  return solved(lost, delta, 1e-6, 50);
}

/* How often the best test detects a shift, with 5 % false alarms. */
function detection(shift) {
  return normal(solved(normal, FALSE_ALARMS, -10, 10) + shift);
}

/* The shift of one stay of so many samples at most, of one person, behind the unit noise. */
function shiftOfStay(model, duration) {
  const R = lag => model.correlations[Math.abs(lag)];
  let square = 0;
  for (let i = 0; i < duration; i++) for (let j = 0; j < duration; j++) square += Math.abs(R(i - j));
  if (duration > LARGEST_SEARCH) return Math.sqrt(square); // no pattern shows more
  let most = 0;
  for (let signs = 0; signs < 2 ** (duration - 1); signs++) {
    const sign = i => (signs >> i & 1 ? -1 : 1);
    let sum = 0;
    for (let i = 0; i < duration; i++) for (let j = 0; j < duration; j++) sum += sign(i) * sign(j) * R(i - j);
    most = Math.max(most, sum);
  }
  return Math.sqrt(most);
}

function alike(model, duration, shift) {
  const R = lag => Math.abs(model.correlations[Math.abs(lag)] ?? 0);
  const found = new Array(LAGS + 1).fill(0);
  for (let lag = LAGS - 1; lag >= 0; lag--) {
    let sum = 0;
    for (let k = 1 - duration; k < duration; k++) sum += (duration - Math.abs(k)) * R(lag + k);
    found[lag] = Math.max(found[lag + 1], sum / shift ** 2);
  }
  return found;
}

/* How many times more clearly n stays show than one, with so many samples between starts. */
function growth(model, duration, count, separation) {
  const shared = stays(model, duration).alike;
  let square = count;
  for (let m = 1; m < count; m++) square += 2 * (count - m) * (shared[m * separation] ?? 0);
  return Math.min(count, Math.sqrt(square));
}

/* -- The loop ---------------------------------------------------------------- */

/* The thermostat's gain: heat per temperature. */
function thermostat(room) {
  const B = transposed([room.B.map(row => row[0])]);
  const Q = diagonal([COMFORT.air, 0]);
  let P = Q, gain;
  for (let k = 0; k < 5000; k++) {
    const BP = product(transposed(B), P);
    gain = scaled(product(BP, room.A), 1 / (COMFORT.heat + product(BP, B)[0][0]));
    P = combined(Q, product(product(transposed(room.A), P), combined(room.A, product(B, gain), -1)));
  }
  return gain;
}

/* The stationary Kalman filter of readings with noise of this size, 0 for no gate. */
function filter(model, size, sensor) {
  const {room, noise} = model;
  const gated = size > 0;
  const A = gated ? blocks(room.A, noise.A) : room.A;
  const C = gated ? [[...room.C[0], ...scaled(noise.C, size)[0]]] : room.C;
  const through = gated ? size * noise.D[0][0] : 0;
  const entry = gated ? [[0], [0], ...noise.B] : zeros(2, 1);
  const Q = gated
    ? blocks(diagonal(DRAUGHT.map(d => d * d)), product(noise.B, transposed(noise.B)))
    : diagonal(DRAUGHT.map(d => d * d));
  const cross = scaled(entry, through); // noise that moves state and reading at once
  let P = gated ? blocks(diagonal([1, 1]), diagonal(noise.A.map(() => 1))) : diagonal([1, 1]);
  let gain, innovation;
  for (let k = 0; k < 3000; k++) {
    const PC = product(P, transposed(C));
    innovation = product(C, PC)[0][0] + sensor * sensor + through * through;
    const AP = combined(product(A, PC), cross);
    gain = scaled(AP, 1 / innovation);
    const next = combined(combined(product(product(A, P), transposed(A)), Q), product(gain, transposed(AP)), -1);
    const change = next.reduce((most, row, i) => row.reduce((m, p, j) => Math.max(m, Math.abs(p - P[i][j])), most), 0);
    P = next;
    if (change < 1e-13) break;
  }
  return {A, C, gain, innovation, P};
}

/* What a stay leaves in the innovations, each divided by its std. */
function trace(model, kalman, duration, people, length) {
  const {room} = model;
  let state = zeros(2, 1), guess = zeros(kalman.A.length, 1);
  const left = [];
  for (let t = 0; t < length; t++) {
    const surprise = product(room.C, state)[0][0] - product(kalman.C, guess)[0][0];
    left.push(surprise / Math.sqrt(kalman.innovation));
    guess = combined(product(kalman.A, guess), scaled(kalman.gain, surprise));
    state = product(room.A, state);
    if (t < duration) state = state.map(([x], i) => [x + room.B[i][1] * people]);
  }
  return left;
}

function length(vector) {
  return Math.sqrt(vector.reduce((sum, v) => sum + v * v, 0));
}

/* How well the thermostat keeps the air, by the covariances of filter and estimate. */
function kept(model, kalman, gain) {
  const {room} = model;
  const heat = transposed([room.B.map(row => row[0])]);
  const closed = combined(room.A, product(heat, gain), -1);
  const entry = kalman.gain.slice(0, 2);
  const driven = scaled(product(entry, transposed(entry)), kalman.innovation);
  let X = zeros(2, 2);
  for (let k = 0; k < 2000; k++) X = combined(product(product(closed, X), transposed(closed)), driven);
  return Math.sqrt(X[0][0] + kalman.P[0][0]);
}

/* All that the page says of one choice: epsilon, delta, duration and separation [samples],
people, sensor [K]. */
function consequences(model, choice) {
  const {epsilon, delta, duration, people, sensor} = choice;
  const shift = shiftOf(epsilon, delta);
  const size = people * stays(model, duration).shift / shift;
  const open = filter(model, 0, sensor), gated = filter(model, size, sensor);
  const {gain} = model;
  const long = 400;
  const repeated = count => detection(shift * growth(model, duration, count, choice.separation));
  return {
    shift,
    size,
    std: size * model.std,
    once: detection(shift),
    repeated,
    foundOpen: detection(length(trace(model, open, duration, people, long))),
    foundGated: detection(length(trace(model, gated, duration, people, long))),
    keptOpen: kept(model, open, gain),
    keptGated: kept(model, gated, gain),
    open, gated, gain,
  };
}

/* The std of the design file's noise. */
function stationary(noise) {
  const driven = product(noise.B, transposed(noise.B));
  let X = driven;
  let A = noise.A;
  for (let k = 0; k < 16; k++) { // twice as many terms of the sum each time
    X = combined(X, product(product(A, X), transposed(A)));
    A = product(A, A);
  }
  return Math.sqrt(product(product(noise.C, X), transposed(noise.C))[0][0] + noise.D[0][0] ** 2);
}

/* -- One week ---------------------------------------------------------------- */

/* Normal numbers that are the same each time, so that a slider changes what it says alone. */
function draws(seed) {
  let word = seed >>> 0;
  const uniform = () => {
    word = word + 0x6D2B79F5 | 0;
    let mixed = Math.imul(word ^ word >>> 15, 1 | word);
    mixed = mixed + Math.imul(mixed ^ mixed >>> 7, 61 | mixed) ^ mixed;
    return ((mixed ^ mixed >>> 14) >>> 0) / 4294967296;
  };
  return () => Math.sqrt(-2 * Math.log(1 - uniform())) * Math.cos(2 * Math.PI * uniform());
}

/* A week of the room: each list has a value for each sample, `scores` those of both tests. */
function week(model, choice, known, seed = 1) {
  const {room, noise} = model;
  const samples = Math.round(7 * 24 / model.hours);
  const before = 200; // samples that are not shown: the noise and the filters settle
  const draw = {air: draws(seed), walls: draws(seed + 1), sensor: draws(seed + 2), noise: draws(seed + 3)};
  const present = t => t >= 0 && choice.starts.some(start => t >= start && t < start + choice.duration);
  let state = zeros(2, 1), own = zeros(noise.A.length, 1);
  const sides = [known.open, known.gated].map(kalman => {
    const template = trace(model, kalman, choice.duration, choice.people, choice.duration + 2);
    return {kalman, guess: zeros(kalman.A.length, 1), left: [], template, size: length(template)};
  });
  const run = {hours: [], present: [], air: [], published: [], estimate: [], scores: [[], []]};
  for (let t = -before; t < samples; t++) {
    const white = draw.noise();
    const gamma = known.size * (product(noise.C, own)[0][0] + noise.D[0][0] * white);
    own = combined(product(noise.A, own), scaled(noise.B, white));
    const reading = state[0][0] + choice.sensor * draw.sensor();
    const published = reading + gamma;
    const estimate = sides[1].guess[0][0];
    const heat = -known.gain[0][0] * estimate - known.gain[0][1] * sides[1].guess[1][0];
    if (t >= 0) {
      run.hours.push(t * model.hours);
      run.present.push(present(t));
      run.air.push(state[0][0]);
      run.published.push(published);
      run.estimate.push(estimate);
    }
    sides.forEach((side, k) => {
      const {kalman, template} = side;
      const surprise = (k ? published : reading) - product(kalman.C, side.guess)[0][0];
      side.left.push(surprise / Math.sqrt(kalman.innovation));
      side.guess = combined(product(kalman.A, side.guess), scaled(kalman.gain, surprise));
      for (let i = 0; i < 2; i++) side.guess[i][0] += room.B[i][0] * heat;
      const seen = side.left.slice(-template.length);
      if (t >= 0) run.scores[k].push(seen.reduce((sum, v, i) => sum + v * template[i], 0) / side.size);
    });
    const people = present(t) ? choice.people : 0;
    state = product(room.A, state);
    const pushes = [DRAUGHT[0] * draw.air(), DRAUGHT[1] * draw.walls()];
    state = state.map(([x], i) => [x + room.B[i][0] * heat + room.B[i][1] * people + pushes[i]]);
  }
  return run;
}

if (typeof module !== "undefined") {
  module.exports = {read, shiftOf, detection, growth, consequences, week};
}
