/* From an answer of /v1/status to the page. */

const HEALTH_KINDS = {ok: "good", degraded: "warn", loading: "warn", stalled: "bad", failing: "bad", failed: "bad"};
const COPY_KINDS = {verified: "good", unverified: "warn", degraded: "bad"};
const WORKER_KINDS = {ready: "good", standby: "", leaving: "", starting: "warn", waiting: "bad", hung: "bad"};
const STANDING_KINDS = {served: "good", loading: "warn", failing: "bad", failed: "bad"};
const CHARTS_AT_FIRST = 8;

const isServed = model => model.standing === "served";
const isSpeech = model => model.architecture === "whisper";
const sum = (list, pick) => list.reduce((total, item) => total + (pick(item) ?? 0), 0);
const copyBytes = copy => copy.small_bytes + copy.huge_bytes + copy.giant_bytes;
const allProcesses = status => [...status.workers, status.front, status.parent];

/* --- the past: what charts are drawn from, [{at, generated, prompt, workers: Map}] ---------------- */

const past = [];
let previous = null; /* the last answer, to take differences from */

/* Tokens by second since the last answer; null: a counter began anew, or there is no last answer. */
function tokenRate(status, key) {
  if (!previous || status.now_ms <= previous.now_ms || status.now_ms - previous.now_ms > GAP_MS) return null;
  let tokens = 0;
  for (const model of status.models) {
    const before = previous.models.find(other => other.name === model.name);
    const more = (model[key] ?? 0) - (before?.[key] ?? 0);
    if (more < 0) return null;
    tokens += before ? more : 0;
  }
  return tokens / (status.now_ms - previous.now_ms) * 1000;
}

function remember(status, now) {
  past.push({at: now, generated: tokenRate(status, "generated_tokens"), prompt: tokenRate(status, "prompt_tokens"),
                workers: new Map(status.workers.map(worker => [worker.index, worker]))});
  while (past.length && now - past[0].at > WINDOW_MS) past.shift();
  previous = status;
}

/* A rate that can be read: of the last five seconds. */
function recentRate(key, now) {
  const values = past.filter(sample => now - sample.at < 5000 && sample[key] !== null).map(sample => sample[key]);
  return values.length ? sum(values, value => value) / values.length : null;
}

/* --- tiles ------------------------------------------------------------------------------------ */

function tilesOf(status, now) {
  const running = sum(status.workers, worker => worker.running), waiting = sum(status.workers, worker => worker.waiting);
  const memory = allProcesses(status);
  return [
    ["Generated", rate(recentRate("generated", now)), `${count.format(sum(status.models, m => m.generated_tokens))} tokens in all`],
    ["Prompts", rate(recentRate("prompt", now)), `${count.format(sum(status.models, m => m.prompt_tokens))} tokens in all`],
    ["Running", plural(running, "call", "calls"), "being computed now"],
    ["Waiting", plural(waiting, "call", "calls"), `${status.calls_in_flight} of ${count.format(status.calls_max)} places taken`],
    ["Shared weights", bytes(sum(status.copies, copyBytes)), `${plural(status.copies.length, "copy", "copies")} in memory`],
    ["Private memory", bytes(sum(memory, p => p.private_bytes)), `at most ${bytes(sum(memory, p => p.private_peak_bytes))}`],
    ["Up", status.uptime_s === undefined ? NONE : duration(status.uptime_s), `${plural(status.worker_restarts, "worker", "workers")} replaced`],
  ].map(([name, value, more]) => ({name, value, more}));
}

/* A number large, and its unit beside it. */
function showTiles(status, now) {
  sync($("tiles"), tilesOf(status, now), tile => tile.name, tile => {
    const value = make("span"), unit = make("small"), more = make("dd", {class: "more"});
    return {element: make("div", {}, make("dt", {}, tile.name), make("dd", {}, value, " ", unit), more), value, unit, more};
  }, (row, tile) => {
    const [value, ...unit] = tile.value.split(" ");
    put(row.value, value);
    put(row.unit, unit.join(" "));
    put(row.more, tile.more);
  });
}

/* --- nodes ------------------------------------------------------------------------------------ */

/* Parts of a whole, as one bar; the text beside it says the same. `parts`: [[style, share]]. */
function putBar(bar, parts) {
  sync(bar, parts, part => part[0], part => ({element: make("span", {class: part[0]})}), (row, part) => {
    const width = `${(100 * Math.max(0, Math.min(1, part[1]))).toFixed(2)}%`;
    if (row.element.style.width !== width) row.element.style.width = width;
  });
}

function pagesText(copy) {
  const sizes = [["giant_bytes", "in 1 GiB pages"], ["huge_bytes", "in 2 MiB pages"], ["small_bytes", "in 4 KiB pages"]];
  return sizes.filter(([key]) => copy[key]).map(([key, name]) => `${bytes(copy[key])} ${name}`).join(", ");
}

function buildCopy() {
  const row = {name: make("strong"), state: make("span"), bar: make("div", {class: "bar", "aria-hidden": "true"}), pages: make("p", {class: "muted"}), placed: make("p", {class: "muted"})};
  row.element = make("li", {}, make("div", {class: "line"}, row.name, row.state), row.bar, row.pages, row.placed);
  return row;
}

function fillCopy(row, copy, status) {
  const adapter = copy.adapter && (status.adapters.find(one => one.id === copy.adapter)?.name ?? `adapter ${copy.adapter}`);
  const total = copyBytes(copy);
  put(row.name, adapter ? `${adapter}, for ${copy.model}` : `${copy.model}, generation ${copy.generation}`);
  putPill(row.state, copy.state, COPY_KINDS[copy.state]);
  putBar(row.bar, ["giant", "huge", "small"].map(size => [size, total ? copy[`${size}_bytes`] / total : 0]));
  put(row.pages, (copy.n_nodes > 1 ? `Spread over ${copy.n_nodes} nodes: ` : "") + pagesText(copy));
  put(row.placed, `${count.format(copy.misplaced)} of ${plural(copy.pages, "page", "pages")} misplaced`);
}

function buildNode(node) {
  const row = {state: make("span"), bar: make("div", {class: "bar", "aria-hidden": "true"}), memory: make("p", {class: "muted"}), copies: make("ul"), workers: make("ul"), none: make("p", {class: "muted"}, "No worker runs here."), checked: make("p", {class: "muted"})};
  row.element = make("article", {class: "card node", "aria-label": `Node ${node.node}`},
    make("h3", {}, `Node ${node.node}`, row.state), row.bar, row.memory, row.checked, row.copies, make("h4", {}, "Workers"), row.workers, row.none);
  return row;
}

function nodeState(copies) {
  if (!copies.length) return ["no copy", ""];
  const worst = ["degraded", "unverified", "verified"].find(state => copies.some(copy => copy.state === state));
  return [worst, COPY_KINDS[worst]];
}

function fillNode(row, node, status) {
  const copies = status.copies.filter(copy => copy.node === node.node), workers = status.workers.filter(worker => worker.node === node.node);
  const weights = sum(copies, copy => copyBytes(copy) / copy.n_nodes);
  const used = node.memory_bytes - node.free_bytes;
  putPill(row.state, ...nodeState(copies));
  if (node.memory_bytes) putBar(row.bar, [["weights", weights / node.memory_bytes], ["used", Math.max(0, used - weights) / node.memory_bytes]]);
  row.bar.hidden = !node.memory_bytes;
  put(row.memory, `Weights ${bytes(weights)}` + (node.memory_bytes ? `, ${bytes(node.free_bytes)} of ${bytes(node.memory_bytes)} free` : ""));
  put(row.checked, copies.length ? `Every page looked at ${duration(node.checked_ms_ago / 1000)} ago` +
    (node.unlocked_bytes ? `; ${bytes(node.unlocked_bytes)} not locked in memory` : "; all locked in memory") : "");
  sync(row.copies, copies, copy => `${copy.model} ${copy.adapter ?? ""} ${copy.generation ?? ""}`, buildCopy, (inner, copy) => fillCopy(inner, copy, status));
  sync(row.workers, workers, worker => worker.index, () => {
    const text = make("span"), state = make("span");
    return {element: make("li", {class: "line"}, text, state), text, state};
  }, (inner, worker) => {
    put(inner.text, `Worker ${worker.index}, CPUs ${worker.cpus}` + (worker.cpus_gone ? ` (${worker.cpus_gone} of them gone)` : ""));
    putPill(inner.state, worker.state, WORKER_KINDS[worker.state] ?? "");
  });
  row.none.hidden = workers.length > 0;
}

function showNodes(status) {
  sync($("node-map"), status.nodes, node => node.node, buildNode, (row, node) => fillNode(row, node, status));
  put($("placement"), `placement ${status.health.placement || "unknown"}` + (status.health.refused_calls ? ` (refused: ${status.health.refused_calls})` : ""));
  $("copies-left").hidden = !status.copies_left_out;
  put($("copies-left"), `${plural(status.copies_left_out, "more copy is", "more copies are")} not shown here; weightctl status has all.`);
}

/* --- workers ---------------------------------------------------------------------------------- */

const kvText = worker => worker.kv_pages ? `${count.format(worker.kv_pages_used)} of ${count.format(worker.kv_pages)}` : NONE;
const fillWorkers = tableOf("worker-head", "worker-rows", [
  {name: "Worker", fill: (cell, w) => put(cell, `Worker ${w.index}`)},
  {name: "State", fill: (cell, w) => {
    const pill = cell.firstChild ?? cell.appendChild(make("span"));
    putPill(pill, w.restart_in_ms ? `${w.state}, ${duration(w.restart_in_ms / 1000 + 1)}` : w.state, WORKER_KINDS[w.state] ?? "");
  }},
  {name: "Model", fill: (cell, w) => put(cell, `${w.model} (${w.generation})`)},
  {name: "Node", fill: (cell, w) => put(cell, w.copy_node === w.node ? `${w.node}` : `${w.node}, reads ${w.copy_node}`)},
  {name: "CPUs", fill: (cell, w) => put(cell, w.cpus)},
  {name: "Running", number: true, fill: (cell, w) => put(cell, String(w.running ?? NONE))},
  {name: "Waiting", number: true, fill: (cell, w) => put(cell, String(w.waiting ?? NONE))},
  {name: "KV pages", number: true, fill: (cell, w) => put(cell, kvText(w))},
  {name: "Shared", number: true, fill: (cell, w) => put(cell, bytes(w.shared_bytes))},
  {name: "Private", number: true, fill: (cell, w) => put(cell, bytes(w.private_bytes))},
  {name: "Private peak", number: true, fill: (cell, w) => put(cell, bytes(w.private_peak_bytes))},
  {name: "Restarts", number: true, fill: (cell, w) => put(cell, String(w.restarts))},
]);

let allCharts = false;
$("more-charts").addEventListener("click", () => {
  allCharts = true;
  if (previous) showWorkerCharts(previous, Date.now());
  $("worker-charts").kept.get(String(previous.workers[CHARTS_AT_FIRST].index)).element.querySelector("summary").focus();
});

function buildWorkerChart(worker) {
  const of = key => sample => sample.workers.get(worker.index)?.[key];
  const drawn = chart(`Worker ${worker.index}`, [
    {name: "Shared", style: "shared", pick: of("shared_bytes")},
    {name: "Private", style: "private", pick: of("private_bytes")},
    {name: "Private peak", style: "peak", pick: of("private_peak_bytes")},
  ], bytes, true);
  return {element: make("div", {class: "card"}, drawn.element), drawn};
}

function showWorkerCharts(status, now) {
  const shown = allCharts ? status.workers : status.workers.slice(0, CHARTS_AT_FIRST);
  sync($("worker-charts"), shown, worker => worker.index, buildWorkerChart, row => row.drawn.draw(past, now));
  $("more-charts").hidden = shown.length === status.workers.length;
  put($("more-charts"), `Show the other ${status.workers.length - shown.length}`);
}

/* --- models ----------------------------------------------------------------------------------- */

function loadText(model) {
  if (!model.file_bytes) return "";
  return `${bytes(model.loaded_bytes)} of ${bytes(model.file_bytes)} (${Math.floor(100 * model.loaded_bytes / model.file_bytes)} %)`;
}

function fillStanding(cell, model, status) {
  const parts = cell.parts ??= {pill: make("span"), why: make("div", {class: "muted"}), progress: make("progress", {max: 100})};
  if (!cell.firstChild) cell.append(make("div", {}, parts.pill, parts.progress, parts.why));
  const health = status.health.models.find(one => one.id === model.name);
  const isPlain = isServed(model) && (!health || health.status === "ok");
  putPill(parts.pill, isPlain ? "served" : isServed(model) ? health.status : model.standing,
          isServed(model) && health ? HEALTH_KINDS[health.status] : STANDING_KINDS[model.standing]);
  parts.progress.hidden = !model.file_bytes;
  putAttribute(parts.progress, "aria-label", `Loading ${model.name}`);
  if (model.file_bytes) parts.progress.value = 100 * model.loaded_bytes / model.file_bytes;
  put(parts.why, [health?.message, loadText(model)].filter(Boolean).join("; "));
}

function generationText(model) {
  const now = model.generation ? String(model.generation) : NONE;
  return model.change ? `${now}; ${model.change.generation} is ${model.change.state}` : now;
}

const adaptersOf = (status, model) => status.adapters.filter(adapter => adapter.model === model.name);
let modelsStatus = null; /* what the rows below are being filled from */
const fillModels = tableOf("model-head", "model-rows", [
  {name: "Model", fill: (cell, m) => put(cell, m.name)},
  {name: "Standing", fill: (cell, m) => fillStanding(cell, m, modelsStatus)},
  {name: "Family", fill: (cell, m) => put(cell, m.architecture ?? NONE)},
  {name: "Generation", fill: (cell, m) => put(cell, generationText(m))},
  {name: "Context", number: true, fill: (cell, m) => put(cell, m.context_tokens ? plural(m.context_tokens, "token", "tokens") : NONE)},
  {name: "Prompt tokens", number: true, fill: (cell, m) => put(cell, m.prompt_tokens === undefined ? NONE : count.format(m.prompt_tokens))},
  {name: "Generated tokens", number: true, fill: (cell, m) => put(cell, m.generated_tokens === undefined ? NONE : count.format(m.generated_tokens))},
  {name: "Adapters", fill: (cell, m) => put(cell, adaptersOf(modelsStatus, m).map(a => `${a.name} (${plural(a.calls, "call", "calls")})`).join(", ") || NONE)},
]);

/* --- all of it -------------------------------------------------------------------------------- */

const throughput = chart("Tokens per second", [
  {name: "Generated", style: "generated", pick: sample => sample.generated},
  {name: "Prompts", style: "prompt", pick: sample => sample.prompt},
], rate, false);
$("throughput").append(throughput.element);

function showFigures(status, now) {
  remember(status, now);
  put($("version"), status.version);
  showTiles(status, now);
  throughput.draw(past, now);
  showNodes(status);
  fillWorkers(status.workers, worker => worker.index);
  $("no-workers").hidden = status.workers.length > 0;
  showWorkerCharts(status, now);
  modelsStatus = status;
  fillModels(status.models, model => model.name);
  $("no-models").hidden = status.models.length > 0;
  const served = status.models.filter(isServed);
  putOptions($("chat-model"), served.filter(model => !isSpeech(model)).flatMap(model => [model.name, ...adaptersOf(status, model).map(a => a.name)]));
  const speech = served.filter(isSpeech);
  putOptions($("speech-model"), speech.map(model => model.name));
  $("speech").hidden = $("speech-link").hidden = !speech.length;
}
