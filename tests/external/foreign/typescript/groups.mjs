// A server on the TypeScript SDK whose tools are enabled and disabled by groups, with the handles that registerTool()
// returns. It knows nothing of Toolfold.
import { McpServer } from "@modelcontextprotocol/server";
import { serveStdio } from "@modelcontextprotocol/server/stdio";
import * as z from "zod";

const say = (text) => ({ content: [{ type: "text", text }] });

function makeServer() {
  const server = new McpServer({ name: "enabled-groups", version: "1.0.0" });

  const tool = (name, description, inputSchema, answer) =>
    server.registerTool(name, { description, inputSchema: z.object(inputSchema) }, async (given) => say(answer(given)));
  const order = { order: z.string() };

  tool("status", "Say that the server is up.", {}, () => "up");
  const finance = [
    tool("analyse", "Analyse the market for a symbol.", { symbol: z.string() }, ({ symbol }) => `${symbol}: steady`),
    tool("convert", "Convert an amount.", { amount: z.number(), rate: z.number() }, (given) =>
      String(given.amount * given.rate),
    ),
  ];
  const edit = [
    tool("write_note", "Write a note.", { name: z.string(), text: z.string() }, ({ name }) => `wrote to ${name}`),
  ];
  const sandbox = [tool("rehearse", "Rehearse an order.", order, (given) => `rehearsed ${given.order}`)];
  const live = [tool("execute", "Execute an order.", order, (given) => `executed ${given.order}`)];

  const enable = (tools) => tools.forEach((each) => each.enable());
  const disable = (tools) => tools.forEach((each) => each.disable());
  const controls = (name, tools, rivals = [], inside = []) => [
    tool(`activate_${name}`, `Switch on the group ${name}.`, {}, () => {
      disable(rivals);
      enable(tools);
      return `${name} is on`;
    }),
    tool(`deactivate_${name}`, `Switch off the group ${name}.`, {}, () => {
      disable([...tools, ...inside]);
      return `${name} is off`;
    }),
  ];

  const read = tool("read_note", "Read a note.", { name: z.string() }, ({ name }) => `the note ${name}`);
  const files = [read, ...controls("edit", edit)];
  controls("finance", finance);
  controls("files", files, [], edit);
  controls("sandbox", sandbox, live);
  controls("live", live, sandbox);
  disable([...finance, ...files, ...edit, ...sandbox, ...live]);
  return server;
}

serveStdio(makeServer);
