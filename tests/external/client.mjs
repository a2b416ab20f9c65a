// A client of the TypeScript SDK: connects, does steps, and prints as JSON what came of them.
//
//     node client.mjs '{"package": "sdk", "era": "legacy", "server": {"url": "…"}, "steps": [["listTools"]]}'
//
// A step is a method of the client and its argument; a call with the argument `handle` is given the handle that came
// last. `received` is how many notifications of a changed list had come by then. `roots` are URIs that the client says
// are its roots.

const CHANGED = "notifications/tools/list_changed";
const PACKAGES = {
  sdk: { client: "sdk/client/index.js", stdio: "sdk/client/stdio.js", http: "sdk/client/streamableHttp.js", types: "sdk/types.js" },
  client: { client: "client", stdio: "client/stdio", http: "client" },
};

const asked = JSON.parse(process.argv[2]);
const load = (part) => import(`@modelcontextprotocol/${PACKAGES[asked.package][part]}`);
const { Client } = await load("client");
const { StdioClientTransport } = await load("stdio");
const { StreamableHTTPClientTransport } = await load("http");

const mode = asked.era === "legacy" ? "legacy" : { pin: asked.era };
const capabilities = asked.roots ? { roots: {} } : {};
const client = new Client({ name: "external", version: "1" }, { capabilities, versionNegotiation: { mode } });
if (asked.roots) {
  const request = asked.package === "sdk" ? (await load("types")).ListRootsRequestSchema : "roots/list";
  client.setRequestHandler(request, async () => ({ roots: asked.roots.map((uri) => ({ uri })) }));
}
let received = 0;
client.fallbackNotificationHandler = async ({ method }) => {
  received += method === CHANGED;
};
await client.connect(
  asked.server.url
    ? new StreamableHTTPClientTransport(new URL(asked.server.url))
    : new StdioClientTransport(asked.server),
);

const steps = [];
let handle;
for (const [method, argument] of asked.steps) {
  if (argument?.arguments && "handle" in argument.arguments) argument.arguments.handle = handle;
  const progress = [];
  const options = { onprogress: (update) => progress.push(update) };
  const callsOfSdk = method === "callTool" && asked.package === "sdk";
  const args = method === "callTool" ? [argument, ...(callsOfSdk ? [undefined] : []), options] : [argument];
  const outcome = await client[method](...args).then(
    (result) => (method === "listen" ? {} : { result }),
    ({ code, message }) => ({ error: { code, message } }),
  );
  handle = outcome.result?._meta?.["dev.toolfold/handle"] ?? handle;
  steps.push({ ...outcome, progress, received });
}
const offered = client.getServerCapabilities();
await client.close();
console.log(JSON.stringify({ capabilities: offered, steps, received }));
