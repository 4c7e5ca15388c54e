/* Asking once a second, and saying what becomes of it. */

const EVERY_MS = 1000, PATIENCE_MS = 5000;
const STALE_MS = 4000; /* the parent tells the front every second */
const KEY = "weightd-key", THEME = "weightd-theme";

let key = sessionStorage.getItem(KEY) ?? "";
let timer = null, paused = false;
let silentSince = null; /* since when there is no answer */
let toldWorkers = new Map(), toldModels = new Map(); /* states that the live region has told */

/* As fetch, with the key. A 401 asks for another one. */
async function ask(path, options = {}) {
  const headers = {...options.headers, ...(key ? {Authorization: `Bearer ${key}`} : {})};
  const answer = await fetch(path, {...options, headers, cache: "no-store"});
  if (answer.status === 401) wantKey();
  return answer;
}

function wantKey() {
  if (!$("key-form").hidden) return;
  $("key-form").hidden = false;
  put($("key-error"), key ? "The server does not know this key." : "");
  $("key").focus();
}

$("key-form").addEventListener("submit", event => {
  event.preventDefault();
  key = $("key").value.trim();
  sessionStorage.setItem(KEY, key);
  $("key-form").hidden = true;
  put($("key-error"), "");
  look();
});

/* --- what a screen reader is told: changes of state, never figures ------------------------------ */

function announce(text) {
  put($("announce"), text);
}

function changes(told, now, name) {
  const said = [];
  for (const [id, state] of now) if (told.size && told.get(id) !== state) said.push(`${name} ${id}: ${state}`);
  for (const id of told.keys()) if (!now.has(id)) said.push(`${name} ${id}: gone`);
  return said;
}

function announceChanges(status) {
  const workers = new Map(status.workers.map(worker => [worker.index, worker.state]));
  const models = new Map(status.models.map(model => [model.name, model.standing]));
  const said = [...changes(toldWorkers, workers, "worker"), ...changes(toldModels, models, "model")];
  if (said.length) announce(said.join(", "));
  toldWorkers = workers;
  toldModels = models;
}

/* --- how it stands with the server -------------------------------------------------------------- */

function banner(text, kind) {
  $("banner").hidden = !text;
  put($("banner"), text);
  putAttribute($("banner"), "class", `banner ${kind}`);
  $("main").classList.toggle("stale", Boolean(text) && Boolean(previous));
}

function answered(status) {
  if (silentSince) announce("The server answers again.");
  silentSince = null;
  putPill($("link"), status.health.status, HEALTH_KINDS[status.health.status]);
  putAttribute($("link"), "title", status.health.message);
  if (status.told_ms_ago === undefined) banner("The daemon has told its front no figures yet.", "warn");
  else if (status.told_ms_ago > STALE_MS) banner(`The daemon has told its front nothing for ${duration(status.told_ms_ago / 1000)}: figures of memory, nodes and workers are as old.`, "warn");
  else banner("", "");
  announceChanges(status);
  showFigures(status, Date.now());
}

function silent(why) {
  if (!silentSince) announce(why);
  silentSince ??= new Date();
  putPill($("link"), "disconnected", "bad");
  banner(`${why} since ${timeOfDay(silentSince)} (${duration((Date.now() - silentSince) / 1000)}).` + (previous ? " What is shown is from before." : ""), "");
}

/* One answer of /v1/status; null: there was none, and the page says why. */
async function getStatus() {
  try {
    const answer = await ask("/v1/status", {signal: AbortSignal.timeout(PATIENCE_MS)});
    if (answer.ok) return await answer.json();
    if (answer.status === 401) putPill($("link"), "key wanted", "warn");
    else silent(`The server says '${await errorOf(answer)}'`);
  } catch {
    silent("No answer from the server");
  }
  return null;
}

async function look() {
  clearTimeout(timer);
  const status = await getStatus();
  clearTimeout(timer);
  /* Before the page is filled, so that a mistake in that does not end the asking. Without a key it waits for one. */
  if (!paused && !document.hidden && $("key-form").hidden) timer = setTimeout(look, EVERY_MS);
  if (status) answered(status);
}

$("pause").addEventListener("click", () => {
  paused = !paused;
  putAttribute($("pause"), "aria-pressed", String(paused));
  clearTimeout(timer);
  if (!paused) look();
  else if (!silentSince && previous) putPill($("link"), `paused at ${timeOfDay(new Date())}`, "warn");
});
document.addEventListener("visibilitychange", () => {
  if (!document.hidden && !paused) look();
});

/* --- light and dark ----------------------------------------------------------------------------- */

function putTheme(theme) {
  if (theme) document.documentElement.dataset.theme = theme;
  else delete document.documentElement.dataset.theme;
  $("theme").value = theme;
}

$("theme").addEventListener("change", () => {
  localStorage.setItem(THEME, $("theme").value);
  putTheme($("theme").value);
});
putTheme(localStorage.getItem(THEME) ?? "");
look();
