// The chosen group and its tools.

function choose(node, scrolls = true) {
  rows.get(chosen)?.removeAttribute("aria-selected");
  rows.get(node)?.setAttribute("aria-selected", "true");
  chosen = node;
  focusable(node);
  showDetail();
  // On a narrow screen the group is shown below the tree.
  if (scrolls && matchMedia("(max-width: 760px)").matches) byId("detail").scrollIntoView();
}

function showDetail() {
  const all = toolsOf.get(chosen);
  const some = found(chosen);
  const filtered = some.length > 0 && some.length < all.length;
  const count = `${filtered ? `${number(some.length)} found of ` : ""}${plural(all.length, "tool")}`;
  byId("detail").replaceChildren(
    element("h2", { class: "path", text: pathOf(chosen) }),
    ...(groups[chosen] ? aboutGroup(groups[chosen]) : []),
    element("h3", { text: count }),
    element("div", { class: "tools" }, ...(filtered ? some : all).map(card)),
  );
  byId("detail").scrollTop = 0;
  showStandings();
}

function aboutGroup({ title, description, hooks, pinned, transient, opensOn }) {
  const facts = [hooks && "runs hooks", pinned && "pinned", transient && "not stored"];
  if (opensOn) facts.push(`opens on ${opensOn}`);
  const excludes = groups[chosen].partners.map((other) => span("chip excludes", `excludes ${pathOf(other)}`));
  const chips = [...excludes, ...facts.filter(Boolean).map((fact) => span("chip", fact))];
  const press = button("primary", () => toggled(chosen), { id: "switch" });
  return [
    title && element("p", { class: "title", dir: "auto", text: title }),
    description && element("p", { class: "text", dir: "auto", text: description }),
    element("p", { class: "bar" }, element("span", { id: "chosen-state" }), press),
    chips.length > 0 && element("p", { class: "chips" }, ...chips),
  ].filter(Boolean);
}

// A tool. What is inside, such as its schemas, is made when it is opened.
function card(tool) {
  const fill = () => made.open && made.childElementCount === 1 && made.append(inside(tool));
  const tokens = span("faint", `~${number(tool.tokens)}`);
  const made = element(
    "details",
    { "data-tool": tool.name, on: { toggle: fill } },
    element(
      "summary",
      {},
      element("span", { class: "mark", "aria-hidden": "true" }),
      span("name", tool.name),
      element("span", { class: "meta" }, tool.control && span("chip", "control"), span("standing"), tokens),
    ),
  );
  return made;
}

const DEPENDS =
  "Whether it is listed, or what is shown of it, depends on the state of the program, which this page can't know.";

function inside({ title, description, hidden, rule, changing, tokens, parts }) {
  const when = `${hidden ? "Never listed, and can be called" : "Listed"}: ${inWords(data, rule)}.`;
  return element(
    "div",
    { class: "inside" },
    title && element("p", { class: "title", dir: "auto", text: title }),
    description && element("p", { class: "text", dir: "auto", text: description }),
    element("p", { class: "faint", text: `${when} About ${plural(tokens, "token")}.` }),
    changing && element("p", { class: "notice", text: DEPENDS }),
    ...parts.flatMap(([key, json]) => [element("h4", { text: key }), element("pre", { text: indented(json) })]),
  );
}

// Compact JSON on many lines, and otherwise unchanged: to read and write it anew would round numbers and sort keys.
function indented(json) {
  let depth = 0;
  const line = () => `\n${"  ".repeat(depth)}`;
  return json.replace(/"(?:[^"\\]|\\.)*"|\{\}|\[\]|[{}[\],:]/g, (token) => {
    if (token === "{" || token === "[") depth++;
    if (token === "}" || token === "]") depth--;
    if (token === "{" || token === "[" || token === ",") return token + line();
    if (token === "}" || token === "]") return line() + token;
    return token === ":" ? ": " : token;
  });
}

const STANDINGS = { true: ["listed", "●"], false: ["not listed", "○"], null: ["depends on the program", "?"] };

function showStandings() {
  if (groups[chosen]) {
    const state = stateOf(chosen);
    byId("chosen-state").className = `badge ${state}`;
    byId("chosen-state").textContent = `${data.marks[state]} ${data.words[state]}`;
    labelSwitch(byId("switch"), chosen);
  }
  const held = new Map(toolsOf.get(chosen).map((tool) => [tool.name, tool]));
  for (const made of byId("detail").querySelectorAll("[data-tool]")) {
    const tool = held.get(made.dataset.tool);
    const [text, mark] = tool.hidden ? ["hidden", "–"] : STANDINGS[offered(tool)];
    made.className = text.replaceAll(" ", "-");
    made.querySelector(".mark").textContent = mark;
    made.querySelector(".standing").textContent = text;
  }
}
