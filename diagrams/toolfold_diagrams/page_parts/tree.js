// The tree: its rows are made once, and what changes is written into them.

const rows = new Map(nodes.map((node) => [node, row(node)]));

function row(node) {
  const group = groups[node];
  const fold = element("span", { class: "fold", "aria-hidden": "true", on: { click: (click) => folded(node, click) } });
  const mark = element("span", { class: "mark", "aria-hidden": "true" });
  const name = span("name", pathOf(node).split(".").at(-1));
  const title = group?.title && element("span", { class: "faint", dir: "auto", text: group.title });
  const press = (click) => (click.stopPropagation(), focusable(node), toggled(node));
  const made = element(
    "li",
    { role: "treeitem", tabindex: -1, title: pathOf(node), "data-node": node, "aria-level": above(node).length + 1 },
    element("span", { class: "line" }, fold, mark, element("span", { class: "label" }, name, title, span("tag"))),
    group && span("state"),
    group && button("switch", press, { tabindex: -1 }),
    element("span", { class: "line second" }, span("faint", figuresOf(node)), span("hits"), excluded(node)),
  );
  made.addEventListener("click", () => choose(node));
  made.style.setProperty("--depth", above(node).length);
  return made;
}

function figuresOf(node) {
  const own = toolsOf.get(node).filter(isUsers);
  const inside = groups[node]?.descendants.length;
  const cost = `${plural(own.length, "tool")} · ~${plural(sum(own.filter(isShowable)), "token")}`;
  return [own.length ? cost : "no tools", ...(inside ? [`${plural(inside, "group")} inside`] : [])].join(" · ");
}

// A few of the groups that a group excludes; those beside it without the path that they share with it.
function excluded(node) {
  const partners = groups[node]?.partners ?? [];
  const briefly = (other) => (parentOf(other) === parentOf(node) ? pathOf(other).split(".").at(-1) : pathOf(other));
  const more = partners.length - EXCLUDED_SHOWN;
  const named = partners.slice(0, EXCLUDED_SHOWN).map(briefly).join(", ");
  return named && span("chip excludes", `excludes ${named}${more > 0 ? ` and ${more} more` : ""}`);
}

function folded(node, click) {
  click?.stopPropagation();
  if (!collapsed.delete(node)) collapsed.add(node);
  showTree();
}

const isShown = (node) => rows.get(node)?.hidden === false;
const found = (node) => (query ? toolsOf.get(node).filter((tool) => matches(tool, query)) : []);

function showTree() {
  const hits = new Map(nodes.map((node) => [node, found(node).length]));
  const kept = nodes.filter((node) => !query || hits.get(node) || (groups[node] && matches(groups[node], query)));
  const shown = new Set(kept.flatMap((node) => [node, ...above(node)]));
  for (const [node, item] of rows) {
    item.hidden = !shown.has(node) || (!query && above(node).some((group) => collapsed.has(group)));
    if (hasChildren.has(node)) item.setAttribute("aria-expanded", query !== "" || !collapsed.has(node));
    item.querySelector(".hits").textContent = hits.get(node) ? `${plural(hits.get(node), "tool")} found` : "";
  }
  const total = [...hits.values()].reduce((all, count) => all + count, 0);
  const places = kept.filter((node) => node !== NONE).length;
  byId("found").textContent = query ? `${plural(places, "group")}, ${plural(total, "tool")} found` : "";
  if (!isShown(focused)) focusable(nodes.find(isShown) ?? focused);
}

function tagOf(node, { entered = [], left = [], group, error }) {
  if (entered.includes(node)) return "opened";
  if (left.includes(node)) return node === group ? "closed" : "displaced";
  return node === group && error ? "refused" : "";
}

function showStates() {
  for (const [node, item] of rows) {
    if (node === NONE) continue;
    const [state, tag] = [stateOf(node), tagOf(node, now())];
    item.className = `${state} ${tag}`.trim();
    item.querySelector(".mark").textContent = data.marks[state];
    item.querySelector(".tag").textContent = tag;
    item.querySelector(".state").textContent = data.words[state];
    labelSwitch(item.querySelector(".switch"), node);
    item.setAttribute("aria-label", `${pathOf(node)}, ${data.words[state]}${tag && `, ${tag}`}, ${figuresOf(node)}`);
  }
}

function labelSwitch(made, group) {
  const verb = stateOf(group) === ACTIVE ? "Close" : "Open";
  made.textContent = verb;
  made.setAttribute("aria-label", `${verb} ${pathOf(group)}`);
}

function keyed(event) {
  const shown = nodes.filter(isShown);
  const at = shown.indexOf(focused);
  const to = { ArrowDown: shown[at + 1], ArrowUp: shown[at - 1], Home: shown[0], End: shown.at(-1) }[event.key];
  const folds = hasChildren.has(focused) && !query;
  const side = { ArrowRight: true, ArrowLeft: false }[event.key];
  if (to !== undefined) go(to);
  else if (side !== undefined && folds && collapsed.has(focused) === side) folded(focused);
  else if (side && hasChildren.has(focused)) go(shown[at + 1] ?? focused);
  else if (side === false && above(focused).length) go(parentOf(focused));
  else if (event.key === "Enter") choose(focused);
  else if (event.key === " " && focused !== NONE) toggled(focused);
  else return;
  event.preventDefault();
}

function focusable(node) {
  rows.get(focused)?.setAttribute("tabindex", -1);
  rows.get(node)?.setAttribute("tabindex", 0);
  focused = node;
}

function go(node) {
  focusable(node);
  rows.get(node).focus();
}
