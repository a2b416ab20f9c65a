// A host on the TypeScript SDK that knows definition tags: it sends the tag of its list with each call, and lists again
// when an answer says that this is stale. It opens a group, calls what that has by name, and prints what it was listed.
//
//     node tagged.mjs '{"url": "…", "token": "…", "open": "database.activate", "name": "database.query", "arguments": {}}'

import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";

const KNOWN = "io.modelcontextprotocol/knownTags";
const STALE = "io.modelcontextprotocol/staleTags";
const asked = JSON.parse(process.argv[2]);

const client = new Client({ name: "tagged", version: "1" }, { versionNegotiation: { mode: { pin: "2026-07-28" } } });
const requestInit = { headers: { Authorization: `Bearer ${asked.token}` } };
await client.connect(new StreamableHTTPClientTransport(new URL(asked.url), { requestInit }));

let list = await client.listTools();
const listed = [list.tools.map(({ name }) => name)];
const call = async (name, args) => {
  const result = await client.callTool({ name, arguments: args, _meta: { [KNOWN]: { "tools/list": list.tag } } });
  if (result._meta?.[STALE]?.includes("tools/list")) {
    list = await client.listTools();
    listed.push(list.tools.map(({ name }) => name));
  }
  return result;
};

await call(asked.open, {});
const result = await call(asked.name, asked.arguments);
await client.close();
console.log(JSON.stringify({ listed, result }));
