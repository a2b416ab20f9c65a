// The page shows what it is sent, and decides nothing: texts become text nodes, and pictures are drawn by the server.

const PROBLEMS = 100;
const RETRY = 1_000; // milliseconds after which a session is asked for again, if its answer did not come
const IDLE = 300; // seconds without a request after which a session is idle
const MANY = 40; // groups, from which on locked ones are left out of the statechart
const PICTURES = ["structure", "sequence"];
const STATES = { a: "active", i: "inactive", l: "locked" };
// What people read of a state.
const WORDS = { a: "open", i: "closed", l: "locked" };

const byId = (id) => document.getElementById(id);
const number = (value) => Math.round(value).toLocaleString("en");
const plural = (count, noun) => `${number(count)} ${noun}${count === 1 ? "" : "s"}`;
const clock = (seconds) => new Date(seconds * 1000).toLocaleTimeString("en-GB");
const sum = (values) => values.reduce((total, value) => total + value, 0);

function element(name, { text, ...attributes } = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) if (value !== undefined && value !== false) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  made.append(...children);
  return made;
}

function put(id, text) {
  const place = byId(id);
  if (place.textContent !== text) place.textContent = text;
}

// What is known. `at` is the number of the step that is shown, `null` for the present one.
const rows = new Map();
const items = new Map();
let control = false;
let since = null;
let chosen = null;
let detail = null;
let at = null;

// -- sessions

function item(row) {
  let made = items.get(row.key);
  if (!made) {
    const [name, line, last] = [element("span", { class: "name", dir: "auto" }), element("span", { class: "faint" }), element("span", { class: "faint last", dir: "auto" })];
    const attributes = { role: "option", id: `session-${row.key}`, "data-key": row.key, "aria-selected": String(row.key === chosen) };
    made = { box: element("li", attributes, name, line, last), name, line, last };
    items.set(row.key, made);
    made.box.addEventListener("click", () => choose(row.key));
    byId("sessions").append(made.box);
  }
  return made;
}

function showRow(row) {
  const { box, name, line, last } = item(row);
  name.textContent = row.session || !row.caller ? row.name : `${row.name} of ${row.caller}`;
  const more = row.undecided ? "≥ " : "~";
  line.textContent = row.ended ? "ended" : `${number(row.count)} open · ${more}${plural(row.listed, "token")}`;
  last.textContent = row.last ? row.last.title : "";
  box.dataset.outcome = row.last?.outcome ?? "";
  box.classList.toggle("ended", row.ended);
  box.hidden = !matches(row);
}

function matches(row) {
  if (byId("busy").checked && !(row.last && Date.now() / 1000 - row.last.at < IDLE)) return false;
  const wanted = byId("search").value.trim().toLowerCase();
  return !wanted || [row.name, row.caller, ...row.active].some((text) => text.toLowerCase().includes(wanted));
}

function visible() {
  return [...byId("sessions").children].filter((box) => !box.hidden);
}

function showFigures() {
  const open = [...rows.values()].filter((row) => row.session && !row.ended);
  const [listed, all] = [sum(open.map((row) => row.listed)), sum(open.map((row) => row.ungrouped))];
  put("figure-open", number(open.length));
  put("figure-tokens", `~${number(listed)} / ${number(all)}`);
  byId("share").value = all ? Math.min(1, listed / all) : 0;
  const shown = visible().length;
  put("found", shown === rows.size ? number(shown) : `${number(shown)} of ${number(rows.size)}`);
  byId("none").hidden = rows.size > 0;
}

// Chooses a session; `null` for none.
function choose(key) {
  if (key !== chosen) {
    [chosen, detail, at] = [key, null, null];
    put("refused", "");
  }
  for (const [each, { box }] of items) box.setAttribute("aria-selected", String(each === key));
  if (key === null) {
    byId("sessions").removeAttribute("aria-activedescendant");
    byId("steps").hidden = byId("standing").hidden = true;
    for (const id of PICTURES) clear(id);
    put("chosen", "No session is chosen");
    put("about", "");
    return;
  }
  byId("sessions").setAttribute("aria-activedescendant", `session-${key}`);
  items.get(key)?.box.scrollIntoView({ block: "nearest" });
  refresh();
}

byId("sessions").addEventListener("keydown", (event) => {
  const boxes = visible();
  const here = boxes.findIndex((box) => Number(box.dataset.key) === chosen);
  const there = { ArrowDown: here + 1, ArrowUp: Math.max(here - 1, 0), Home: 0, End: boxes.length - 1, PageDown: here + 10, PageUp: Math.max(here - 10, 0) }[event.key];
  if (there === undefined || !boxes.length) return;
  event.preventDefault();
  choose(Number(boxes[Math.min(there, boxes.length - 1)].dataset.key));
});

for (const id of ["search", "busy"]) byId(id).addEventListener("input", () => {
  for (const row of rows.values()) items.get(row.key).box.hidden = !matches(row);
  showFigures();
});

// -- the chosen session

// Returns a function that does some work, one at a time: where it is called meanwhile, the work is done once more.
function oneAtATime(work) {
  let [busy, again] = [false, false];
  return async () => {
    again = busy;
    if (busy) return;
    busy = true;
    try {
      do {
        again = false;
        await work();
      } while (again);
    } finally {
      busy = false;
    }
  };
}

const refresh = oneAtATime(async () => {
  const key = chosen;
  if (key === null) return;
  const asked = fetch(`sessions/${key}`).then((answer) => (answer.ok ? answer.json() : null));
  const found = await asked.catch(() => {
    if (source.readyState === EventSource.OPEN) setTimeout(refresh, RETRY); // else the stream says later what there is
  });
  if (key === chosen && found) {
    detail = found;
    show();
  }
});

// The states that the slider goes through: that before the first step, and those after each.
const stops = () => [{ ...detail.before, number: 0 }, ...detail.steps];

function position() {
  const found = at === null ? -1 : stops().findIndex((stop) => stop.number === at);
  if (found < 0 && at !== null) at = stops()[0].number; // the step is retained no longer
  return at === null ? detail.steps.length : Math.max(found, 0);
}

function show() {
  const [all, place] = [stops(), position()];
  const [stop, before] = [all[place], all[place - 1]];
  byId("steps").hidden = false;
  put("chosen", detail.session || !detail.caller ? detail.name : `${detail.name} of ${detail.caller}`);
  byId("standing").hidden = !detail.ended;
  put("standing", "ended");
  const undecided = detail.undecided ? `, and ${plural(detail.undecided, "tool")} that the program decides on` : "";
  const caller = detail.session && detail.caller ? `${detail.caller} · ` : "";
  put("about", `${caller}~${number(stop.listed)} of ${plural(stop.ungrouped, "token")} listed${undecided}`);
  showStep(stop, place, all.length);
  showChart(stop, before);
  const marked = detail.catalogs[stop.catalog].filter((_, group) => moved(stop, before, group)).map(({ id }) => id);
  draw("structure", `${stop.number}/structure.svg`, `${stop.states} ${marked} ${charted}`, marked);
  if (stop.number) draw("sequence", `${stop.number}/sequence.svg`, `${stop.number} ${stop.entries}`);
  else clear("sequence");
}

function showStep(stop, place, count) {
  const slider = byId("slider");
  [slider.max, slider.value] = [count - 1, place];
  const title = stop.number ? stop.title : "Before the first of these steps";
  const outcome = stop.outcome ?? "";
  slider.setAttribute("aria-valuetext", `Step ${place} of ${count - 1}: ${title} ${outcome}`);
  byId("back").disabled = place === 0;
  byId("on").disabled = place === count - 1;
  byId("now").setAttribute("aria-pressed", String(at === null));
  byId("outcome").dataset.outcome = outcome;
  put("outcome", outcome);
  put("title", title);
  put("at", stop.at ? clock(stop.at) : "");
  byId("reasons").replaceChildren(...(stop.reasons ?? []).map((text) => element("li", { text, dir: "auto" })));
}

// Shows the state at a place among these; nothing, while what is shown is still the session that was chosen before.
function go(toPlace) {
  if (!detail) return;
  const [all, place] = [stops(), toPlace()];
  at = place >= all.length - 1 ? null : all[Math.max(place, 0)].number;
  show();
}

byId("slider").addEventListener("input", () => go(() => Number(byId("slider").value)));
byId("back").addEventListener("click", () => go(() => position() - 1));
byId("on").addEventListener("click", () => go(() => position() + 1));
byId("now").addEventListener("click", () => go(() => Infinity));

// -- pictures

const wanted = {}; // what is drawn at each place, or is to be

function clear(id) {
  wanted[id] = null;
  byId(id).replaceChildren();
}

// Read as XML by the browser, which for a text in this page would need a trusted type; no script in it would run.
function svg(url) {
  return new Promise((done) => {
    const request = new XMLHttpRequest();
    request.open("GET", url);
    request.responseType = "document";
    request.onloadend = () => done(request.status === 200 ? request.responseXML?.documentElement : null);
    request.send();
  });
}

function draw(id, url, content, marked = []) {
  const key = `${chosen} ${content}`;
  if (wanted[id]?.key === key) return;
  wanted[id] = { key, session: chosen, url: `sessions/${chosen}/${url}`, marked };
  drawing[id]();
}

const drawing = Object.fromEntries(PICTURES.map((id) => [id, oneAtATime(() => drawWanted(id))]));

async function drawWanted(id) {
  const picture = wanted[id];
  if (!picture) return;
  const found = await svg(picture.url);
  if (wanted[id]?.session !== picture.session) return;
  if (!found) {
    if (wanted[id] === picture) clear(id);
    return;
  }
  const shown = document.importNode(found, true);
  byId(id).replaceChildren(shown);
  shown.classList.toggle("big", shown.width.baseVal.value > 1.4 * byId(id).clientWidth);
  for (const group of picture.marked) shown.querySelector(`[data-id="${group}"]`)?.classList.add("moved");
}

// How a group has moved in a step; that it was locked or is so no longer is no move of its own.
function moved(stop, before, group) {
  const [was, is] = [before?.catalog === stop.catalog && before.states[group], stop.states[group]];
  return !was || was === is ? "" : is === "a" ? "opened" : was === "a" ? "closed" : "";
}

// -- the statechart: regions in regions, each with its two states

let regions = [];
let charted = "";

function region(group) {
  const [to, from] = ["a", "i"].map((state) => group.moves.filter(([target]) => target === state).map(([, label]) => label).join("\n"));
  const parts = {
    inactive: element("span", { class: "state inactive", text: WORDS.i }),
    arrows: element("span", { class: "arrows", "aria-hidden": "true" }, element("span", { class: "to", text: "→", title: to }), element("span", { class: "from", text: "←", title: from })),
    active: element("span", { class: "state active", text: WORDS.a }),
    now: element("span", { class: "unseen" }),
    button: element("button", { type: "button", class: "switch" }),
    inside: element("ul", {}),
  };
  const name = element("span", { class: "name", text: group.title, title: `${group.path}, ${plural(group.tools, "tool")}`, dir: "auto" });
  const notes = [group.hooks && "hooks", group.pinned && "pinned"].filter(Boolean).map((text) => element("span", { class: "chip", text }));
  const line = element("div", { class: "region-line" }, name, ...notes, parts.now, element("span", { class: "states", "aria-hidden": "true" }, parts.inactive, parts.arrows, parts.active), parts.button);
  parts.button.addEventListener("click", () => ask(group.path, parts.button.dataset.open === "true"));
  parts.box = element("li", {}, line, parts.inside);
  return parts;
}

function buildChart(groups) {
  regions = groups.map(region);
  const root = groups.flatMap(({ parent }, index) => (parent === null ? [regions[index].box] : []));
  groups.forEach(({ parent }, index) => parent !== null && regions[parent].inside.append(regions[index].box));
  for (const { inside } of regions) if (!inside.children.length) inside.remove();
  byId("chart").replaceChildren(...root);
  byId("chart").classList.toggle("many", groups.length > MANY);
  put("remark", !groups.length ? "There are no groups." : groups.length > MANY ? "Groups are left out while a group above them is not open." : "");
}

function showChart(stop, before) {
  const groups = detail.catalogs[stop.catalog];
  const built = JSON.stringify(groups);
  if (built !== charted) buildChart(groups);
  charted = built;
  const controlled = control && detail.session && !detail.ended && at === null;
  groups.forEach((group, index) => {
    const { box, button, now } = regions[index];
    const state = stop.states[index];
    const coming = stop.activating?.includes(index) ? "activating" : stop.deactivating?.includes(index) ? "deactivating" : "";
    box.className = `region ${STATES[state]} ${coming} ${moved(stop, before, index)}`;
    now.textContent = `: ${WORDS[state]}${coming && (coming === "activating" ? ", being opened" : ", being closed")}`;
    button.hidden = !controlled || !group.controls[Number(state !== "a")];
    button.dataset.open = String(state !== "a");
    button.textContent = state === "a" ? "Close" : "Open";
    button.setAttribute("aria-label", `${button.textContent} ${group.title}`);
    button.disabled = state === "l";
  });
}

async function ask(group, open) {
  if (!detail) return; // as in `go`
  put("refused", "");
  const given = { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ group, open }) };
  const answer = await fetch(`sessions/${chosen}`, given).catch(() => null);
  if (!answer?.ok) put("refused", (await answer?.json().catch(() => null))?.error ?? "The server does not answer.");
}

// -- refusals and failures

function showProblems(problems) {
  const list = byId("problems");
  for (const { at: when, text, key, step, outcome, times } of problems) {
    const row = rows.get(key);
    const same = `${outcome} ${text}`;
    [...list.children].find((each) => each.dataset.same === same)?.remove();
    const button = element("button", { type: "button", class: "plain", dir: "auto", text, disabled: key === null });
    button.addEventListener("click", () => {
      if (!rows.has(key)) return;
      choose(key);
      at = step;
      refresh();
    });
    const head = element("p", { class: "faint" }, element("span", { class: "outcome", "data-outcome": outcome, text: times > 1 ? `${outcome} ${number(times)} times` : outcome }), ` ${clock(when)} `, element("span", { text: row?.name ?? "", dir: "auto" }));
    list.prepend(element("li", { "data-same": same }, head, button));
  }
  while (list.children.length > PROBLEMS) list.lastChild.remove();
  byId("fine").hidden = list.children.length > 0;
  if (problems.length) put("announced", problems.length > 1 ? `${problems.length} refusals or failures` : problems[0].text);
}

// -- what was used: the report, as long as it is shown

const USE = 5_000; // milliseconds between two looks at it
const COLUMNS = ["name", "opened", "unused", "calls", "errors", "p50", "p99", "tokens"];

function figure(column, value) {
  if (column === "p50" || column === "p99") return value ? `${(value * 1000).toPrecision(3)} ms` : "";
  return typeof value === "number" ? number(value) : value;
}

function useTable(title, entries) {
  const columns = COLUMNS.filter((column) => column in entries[0]);
  const line = (cell, texts) => element("tr", {}, ...texts.map((text) => element(cell, { text, dir: "auto" })));
  const body = entries.slice(0, 20).map((entry) => line("td", columns.map((column) => figure(column, entry[column]))));
  return element("table", {}, element("caption", { text: title }), line("th", columns), ...body);
}

async function showUse() {
  if (!byId("use").open) return;
  const report = await fetch("report").then((answer) => (answer.ok ? answer.json() : null)).catch(() => null);
  if (report) {
    const { total, searches, refused } = report;
    const texts = [`${plural(total.calls, "call")}, ${plural(total.errors, "error")}; ${plural(searches.asked, "search")}, ${number(searches.empty)} without a result`];
    const why = Object.entries(refused).map(([reason, count]) => `${reason} ${number(count)}`);
    if (why.length) texts.push(`What could not be called, by the reason: ${why.join(", ")}`);
    if (report.unused.length) texts.push(`Without a call: ${report.unused.slice(0, 20).join(", ")}${report.unused.length > 20 ? ", …" : ""}`);
    byId("use-lines").replaceChildren(...texts.map((text) => element("p", { text, class: "faint" })));
    byId("use-advice").replaceChildren(...report.advice.map((text) => element("li", { text, dir: "auto" })));
    const tables = ["tools", "groups", "clients", "eras"].filter((name) => report[name].length);
    byId("use-tables").replaceChildren(...tables.map((name) => useTable(name, report[name])));
  }
  setTimeout(showUse, USE);
}

byId("use").addEventListener("toggle", showUse);

// -- the stream

const source = new EventSource("events");

source.addEventListener("head", (event) => {
  const head = JSON.parse(event.data);
  control = head.control;
  rows.clear();
  items.clear();
  byId("sessions").replaceChildren();
  byId("problems").replaceChildren();
  byId("fine").hidden = false;
  if (head.since !== since) choose(null); // sessions have other numbers now
  since = head.since;
  put("link", control ? "watching, with control" : "watching");
  byId("link").dataset.state = "open";
});

source.addEventListener("changes", (event) => {
  const { rows: changed, keys, problems, lists } = JSON.parse(event.data);
  put("figure-saved", `~${number(lists.ungrouped - lists.tokens)} in ${plural(lists.lists, "list")}`);
  for (const row of changed) rows.set(row.key, row);
  changed.forEach(showRow);
  const present = new Set(keys);
  for (const key of [...rows.keys()].filter((each) => !present.has(each))) {
    items.get(key).box.remove();
    rows.delete(key);
    items.delete(key);
  }
  showProblems(problems);
  showFigures();
  if (!rows.has(chosen)) choose(rows.keys().next().value ?? null);
  else if (changed.some(({ key }) => key === chosen)) refresh();
});

source.onerror = () => {
  put("link", source.readyState === EventSource.CLOSED ? "not connected; reload the page" : "connecting again");
  byId("link").dataset.state = "lost";
};
