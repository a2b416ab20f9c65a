// The adapter of `tests/adapters/mcp/contract.py` as the working group's runner takes one: each instance is a process.
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";

function started() {
  const child = spawn(process.env.TOOLFOLD_PYTHON, ["-m", "tests.external.contract.program"], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  const waiting = [];
  const ended = new Promise((resolve) => child.on("exit", resolve));
  createInterface({ input: child.stdout }).on("line", (line) => waiting.shift()(JSON.parse(line)));
  ended.then((code) => waiting.forEach((settle) => settle({ failed: `the process ended with ${code}` })));
  return {
    ask: async (verb, ...given) => {
      const answered = new Promise((resolve) => waiting.push(resolve));
      child.stdin.write(`${JSON.stringify([verb, ...given])}\n`);
      const { failed, answer } = await answered;
      if (failed !== undefined) throw new Error(failed);
      return answer;
    },
    end: async () => {
      child.stdin.end();
      await ended;
    },
  };
}

export async function createAdapter({ fixture, allowed, options = {} }) {
  const { ask, end } = started();
  await ask("create", fixture, allowed, options);
  return {
    request: (request) => ask("request", request),
    replaceFixture: (next) => ask("replace_fixture", next),
    setAllowed: (names) => ask("set_allowed", names),
    close: end,
  };
}

export async function serialize(value) {
  const { ask, end } = started();
  try {
    return await ask("serialize", value);
  } finally {
    await end();
  }
}
