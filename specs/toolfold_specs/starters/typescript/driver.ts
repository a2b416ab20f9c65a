// A driver for the conformance kit of Toolfold: `toolfold conform --driver -- node driver.ts`, with Node 22.18 or later.
// On Node 20, compile it first: `npx -p typescript tsc -p .`, then `toolfold conform --driver -- node driver.js`.
// `Engine` stands for your implementation; replace it, and keep the rest.

import { createInterface } from "node:readline";

type Setup = { groups: { path: string }[]; exclusions: string[][] };
type Response = { error?: string; detail?: object; changed?: boolean; active?: string[]; [member: string]: unknown };

class Refusal extends Error {
  detail: object;

  constructor(name: string, detail: object) {
    super(name);
    this.name = name;
    this.detail = detail;
  }
}

/** Whether a group is another or lies below it. */
function isWithin(path: string, group: string): boolean {
  return path === group || path.startsWith(group + ".");
}

/** The ancestors of a group, from the top down. */
function ancestors(path: string): string[] {
  const names = path.split(".");
  return names.slice(1).map((_, place) => names.slice(0, place + 1).join("."));
}

/** Canonical order: name by name, so that a.b comes before a-b. */
function compare(one: string, other: string): number {
  const [left, right] = [one.split("."), other.split(".")];
  const place = left.findIndex((name, index) => name !== right[index]);
  if (place === -1) return left.length - right.length;
  return right[place] === undefined || left[place] > right[place] ? 1 : -1;
}

/** The rules of groups, for one session. */
class Engine {
  private readonly paths: Set<string>;
  private readonly exclusions: string[][];
  private open = new Set<string>();

  constructor(setup: Setup) {
    this.paths = new Set(setup.groups.map((group) => group.path));
    this.exclusions = setup.exclusions;
  }

  /** The active groups in canonical order. */
  get active(): string[] {
    return [...this.open].sort(compare);
  }

  /** Activate a group and return whether that changed anything. */
  activate(group: string): boolean {
    this.require(group);
    const missing = ancestors(group).find((path) => !this.open.has(path));
    if (missing !== undefined) throw new Refusal("ParentInactive", { missing });
    if (this.open.has(group)) return false;
    const rivals = this.exclusions.filter((members) => members.includes(group)).flat();
    for (const rival of rivals) if (rival !== group) this.close(rival);
    this.open.add(group);
    return true;
  }

  /** Deactivate a group and all below it; return whether that changed anything. */
  deactivate(group: string): boolean {
    this.require(group);
    const changed = this.open.has(group);
    this.close(group);
    return changed;
  }

  private require(group: string): void {
    if (!this.paths.has(group)) throw new Refusal("GroupNotFound", { group });
  }

  private close(group: string): void {
    this.open = new Set([...this.open].filter((path) => !isWithin(path, group)));
  }
}

let engine = new Engine({ groups: [], exclusions: [] });

function perform(verb: string, asked: { protocol?: number; setup?: Setup; group?: string }): Response {
  switch (verb) {
    case "hello":
      return { protocol: 1, capabilities: ["setups", "errors"] };
    case "configure":
      engine = new Engine(asked.setup!);
      return {};
    case "activate":
      return { changed: engine.activate(asked.group!), active: engine.active };
    case "deactivate":
      return { changed: engine.deactivate(asked.group!), active: engine.active };
    case "snapshot":
      return { active: engine.active };
    default:
      return { error: "NotSupported" };
  }
}

function respond(line: string): Response {
  const request = JSON.parse(line);
  try {
    return perform(request.verb, request.arguments ?? {});
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    return { error: error.name, detail: error.detail, active: engine.active };
  }
}

for await (const line of createInterface({ input: process.stdin })) console.log(JSON.stringify(respond(line)));
