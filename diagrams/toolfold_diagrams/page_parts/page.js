// The steps made so far, and the start of the page.

const VERBS = { activate: "Opened", deactivate: "Closed" };
const ASKED = { activate: "open", deactivate: "close" };
const CLOSED = { activate: "Closed to make room", deactivate: "Closed with it" };

function sentence({ event, group, error, entered, left }) {
  if (!event) return "Start";
  if (error) return `Refused to ${ASKED[event]} ${pathOf(group)}`;
  return `${VERBS[event]} ${pathOf(group)}${entered.length + left.length ? "" : ": it was so already"}`;
}

function names(title, kind, list) {
  if (!list.length) return [];
  const items = list.slice(0, NAMES_SHOWN).map((text) => element("li", { text }));
  const more = list.length - items.length;
  const rest = more > 0 && element("li", { text: `and ${number(more)} more` });
  const head = element("h3", { text: `${title} (${number(list.length)})` });
  return [head, element("ul", { class: `names ${kind}` }, ...items, rest)];
}

function costOf({ list }, before) {
  const [is, was] = [sum(list), before && sum(before.list)];
  if (!before) return `~${plural(is, "token")} listed`;
  const more = `${is < was ? "−" : "+"}${number(Math.abs(is - was))}`;
  return `~${number(was)} → ${plural(is, "token")} listed (${is === was ? "the same" : more})`;
}

function showStep() {
  const [before, step] = [steps.at(-2), now()];
  const was = before?.list ?? step.list;
  const toolNames = (list) => list.map(({ name }) => name);
  byId("outcome").replaceChildren(
    element("p", { class: step.error ? "outcome refusal" : "outcome", text: sentence(step) }),
    element("p", { class: "refusal" }, step.error && span("error", step.error), step.error && ` ${step.text}`),
  );
  byId("step").replaceChildren(
    ...names(CLOSED[step.event], "displaced", displaced(step).map(pathOf)),
    ...names("Now listed", "added", toolNames(without(step.list, was))),
    ...names("No longer listed", "removed", toolNames(without(was, step.list))),
    element("p", { class: "cost", text: costOf(step, before) }),
  );
}

function showHistory() {
  const item = (step) => {
    const also = displaced(step).map(pathOf).join(", ");
    const rest = `${also && ` closing ${also}`} · ~${plural(sum(step.list), "token")}`;
    return element("li", { class: step.error && "refusal" }, sentence(step), span("faint", rest));
  };
  byId("history").replaceChildren(...steps.map(item).reverse());
}

function showFigures() {
  const { states, list } = now();
  const limit = data.limit === null ? "" : `, at most ${number(data.limit)}`;
  const unsure = tools.filter((tool) => offered(tool) === null).length;
  const depends = unsure ? `, ${number(unsure)} more ${unsure === 1 ? "depends" : "depend"}` : "";
  byId("figure-groups").textContent = `${number(activeIn(states).length)} of ${number(groups.length)}${limit}`;
  const all = tools.filter(isUsers).filter(isShowable).length;
  byId("figure-tools").textContent = `${plural(all, "tool")}; ${number(list.length)} listed${depends}`;
  byId("figure-tokens").textContent = `~${number(sum(list))} / ${plural(ungrouped, "token")}`;
  byId("share").max = Math.max(ungrouped, sum(list), 1);
  byId("share").value = sum(list);
}

function showNow() {
  const { list } = now();
  const [title, held] = byId("now").children;
  title.textContent = `The list now: ${plural(list.length, "tool")}`;
  held.replaceChildren(...(byId("now").open ? list.map(({ name }) => element("li", { text: name })) : []));
}

function refresh() {
  for (const show of [showStates, showStandings, showStep, showHistory, showFigures, showNow]) show();
  byId("back").disabled = byId("restart").disabled = steps.length === 1;
}

function foldAll(nodes) {
  collapsed.clear();
  for (const node of nodes) collapsed.add(node);
  showTree();
}

function onInput() {
  query = byId("search").value.trim().toLowerCase();
  showTree();
  showDetail();
}

function start() {
  byId("tree").append(...rows.values());
  byId("tree").addEventListener("keydown", keyed);
  byId("search").addEventListener("input", onInput);
  byId("expand").addEventListener("click", () => foldAll([]));
  byId("collapse").addEventListener("click", () => foldAll(hasChildren));
  byId("back").addEventListener("click", () => (steps.pop(), refresh()));
  byId("restart").addEventListener("click", () => (steps.splice(1), refresh()));
  byId("now").addEventListener("toggle", showNow);
  const active = activeIn(data.states);
  foldAll(groups.length > OPENED_AT_START ? without([...hasChildren], active) : []);
  choose(active[0] ?? nodes[0] ?? NONE, false);
  refresh();
}

start();
