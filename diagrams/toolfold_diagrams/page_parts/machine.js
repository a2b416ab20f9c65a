"use strict";
// The core's rules, run as data. Nothing is decided here: `data.table` is the transition table of a group's region,
// and `data.groups` says what a group is to others. Groups are numbers, in canonical order.

const ACTIVE = "active";

const areActive = (states, groups) => groups.every((group) => states[group] === ACTIVE);

// The guards of the table, on the groups as they are when an event reaches one of them.
const GUARDS = {
  "": () => true,
  "all ancestors active": (states, { ancestors }) => areActive(states, ancestors),
  "an ancestor inactive": (states, { ancestors }) => !areActive(states, ancestors),
  "no partner active": (states, { partners }) => !partners.some((group) => states[group] === ACTIVE),
  "a partner active": (states, { partners }) => partners.some((group) => states[group] === ACTIVE),
};

// The row for an event in a group's state.
function lookup(data, states, group, event) {
  const rows = data.table[states[group]][event] ?? [];
  const row = rows.find(({ guard }) => GUARDS[guard](states, data.groups[group]));
  if (!row) throw new Error(`Event "${event}" can't happen in state "${states[group]}".`);
  return row;
}

// Changes `states`: what an event makes of a group, and all that follows for the groups around it. Returns its effect.
function deliver(data, states, group, event) {
  const effects = [];
  const queue = [{ group, event }];
  while (queue.length) {
    const next = queue.shift();
    const row = lookup(data, states, next.group, next.event);
    states[next.group] = row.target;
    effects.push(row.effect);
    for (const { event, to } of row.emits) for (const group of data.groups[next.group][to]) queue.push({ group, event });
  }
  return effects[0];
}

const refused = (data, error, names, text = error) => ({
  error,
  text: data.refusals[text].replace(/\{(\w+)\}/g, (_, key) => names[key]),
});

// The result of a request: the states and the order of activation after it, or why it is refused.
function request(data, before, event, group) {
  const states = [...before.states];
  const { path, ancestors } = data.groups[group];
  if (deliver(data, states, group, event) === "refuse") {
    const missing = ancestors.find((above) => states[above] !== ACTIVE);
    return refused(data, "ParentInactive", { group: path, parent: data.groups[missing].path });
  }
  const quota = event === "activate" ? makeRoom(data, before.order, states, group) : null;
  if (quota) return refused(data, "QuotaExceeded", { group: path }, quota);
  return { states, order: orderAfter(data, before, states) };
}

const activeIn = (states) => [...states.keys()].filter((group) => states[group] === ACTIVE);

// Changes `states` until the quotas hold; the refusal of the one that can't, or null.
function makeRoom(data, order, states, wanted) {
  const weight = (numbers) => numbers.reduce((total, group) => total + data.groups[group].weight, 0);
  const exceeded = () => {
    const active = activeIn(states);
    if (data.limit !== null && active.length > data.limit) return "QuotaExceeded";
    return data.room !== null && weight(active) > data.room ? "ListTooLong" : null;
  };
  const spared = (group) => states[group] === ACTIVE && (group === wanted || data.groups[group].pinned);
  for (const oldest of data.evicts ? order : []) {
    const quota = exceeded();
    if (!quota) break;
    const gone = [oldest, ...data.groups[oldest].descendants].filter((group) => states[group] === ACTIVE);
    if (states[oldest] !== ACTIVE || gone.some(spared) || (quota === "ListTooLong" && !weight(gone))) continue;
    deliver(data, states, oldest, "deactivate");
  }
  return exceeded();
}

function orderAfter(data, before, states) {
  if (!data.evicts) return [];
  const entered = activeIn(states).filter((group) => before.states[group] !== ACTIVE);
  return [...before.order.filter((group) => states[group] === ACTIVE), ...entered];
}

// Whether a rule holds: true, false, or null where that depends on a predicate, which only the program can ask.
function holds([kind, ...parts], states) {
  if (kind === "always") return true;
  if (kind === "when") return null;
  if (kind === "group") return states[parts[0]] === ACTIVE;
  const answers = parts.map((part) => holds(part, states));
  if (kind === "not") return answers[0] === null ? null : !answers[0];
  const decisive = kind === "either";
  if (answers.includes(decisive)) return decisive;
  return answers.includes(null) ? null : !decisive;
}

// A rule in words.
function inWords(data, [kind, ...parts]) {
  if (kind === "always") return "always";
  if (kind === "when") return "while the program says so";
  if (kind === "group") return `while ${data.groups[parts[0]]?.path ?? "a group that is not here"} is open`;
  const [first, second] = parts.map((part) => inWords(data, part));
  if (kind === "both") return `${first} and ${second}`;
  if (kind === "either") return `(${first} or ${second})`;
  return parts[0][0] === "group" ? first.replace(/ is open$/, " is not open") : `not (${first})`;
}
