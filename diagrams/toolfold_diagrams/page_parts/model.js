// What the page knows, and how its elements are made. Everything that comes from the data is put in as text: no markup
// is ever made from it.

const data = JSON.parse(document.getElementById("data").textContent);
const { groups, tools } = data;
const NONE = -1; // stands for the tools that are in no group
const OPENED_AT_START = 60; // larger forests are folded at first
const EXCLUDED_SHOWN = 3;
const NAMES_SHOWN = 40;

const byId = (id) => document.getElementById(id);
const number = (value) => value.toLocaleString("en");
const plural = (count, noun) => `${number(count)} ${noun}${count === 1 ? "" : "s"}`;
const sum = (list) => list.reduce((total, { tokens }) => total + tokens, 0);

function without(list, others) {
  const gone = new Set(others);
  return list.filter((one) => !gone.has(one));
}

function element(tag, { on = {}, text, ...attributes } = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) if (value !== undefined) made.setAttribute(name, value);
  for (const [event, handler] of Object.entries(on)) made.addEventListener(event, handler);
  if (text !== undefined) made.textContent = text;
  made.append(...children.filter(Boolean));
  return made;
}

const span = (kind, text) => element("span", { class: kind, text });
const button = (kind, press, more) => element("button", { type: "button", class: kind, on: { click: press }, ...more });

// What never changes. A node of the tree is the number of a group, or NONE.

const toolsOf = new Map([NONE, ...groups.keys()].map((node) => [node, []]));
for (const tool of tools) toolsOf.get(tool.group ?? NONE).push(tool);
const nodes = [...(toolsOf.get(NONE).length ? [NONE] : []), ...groups.keys()];
const above = (node) => groups[node]?.ancestors ?? [];
const parentOf = (node) => above(node).at(-1) ?? NONE;
const hasChildren = new Set(groups.map((_, group) => parentOf(group)).filter((parent) => parent !== NONE));
const pathOf = (node) => groups[node]?.path ?? "In no group";
const isUsers = ({ control, beside }) => !control && !beside; // without groups, only those would be listed
const isShowable = ({ hidden }) => !hidden;
const ungrouped = sum(tools.filter(isUsers).filter(isShowable));
const searched = new Map(); // a group or a tool: its texts, made when first looked at

function matches(thing, query) {
  if (!searched.has(thing)) {
    const texts = [thing.path, thing.name, thing.title, thing.description];
    searched.set(thing, texts.filter(Boolean).join("\n").toLowerCase());
  }
  return searched.get(thing).includes(query);
}

// What changes

const steps = [after({ states: data.states, order: data.order })];
const collapsed = new Set();
let chosen = NONE;
let focused = nodes[0];
let query = "";

const now = () => steps.at(-1);
const stateOf = (group) => now().states[group];
const offered = (tool) => !tool.hidden && holds(tool.rule, now().states);

// A step together with the list of tools after it.
function after(step) {
  return { ...step, list: tools.filter((tool) => !tool.hidden && holds(tool.rule, step.states) === true) };
}

function take(event, group) {
  const before = now();
  const { error, text, ...changed } = request(data, before, event, group);
  const { states, order } = { ...before, ...changed };
  const [was, is] = [activeIn(before.states), activeIn(states)];
  steps.push(after({ states, order, event, group, error, text, entered: without(is, was), left: without(was, is) }));
  refresh();
}

const toggled = (group) => take(stateOf(group) === ACTIVE ? "deactivate" : "activate", group);
const displaced = ({ left = [], group }) => left.filter((other) => other !== group);
