// A host of MCP Apps: renders the views of tools in a browser, and has the SDK's bridge answer them from a server.
//
//     node views.mjs '{"browser": "…", "server": {"command": "…", "args": […]}, "era": "…", "open": ["…"], "tools": ["…"]}'
//
// Opens groups, calls each tool, reads the view that its definition names, renders it in a frame that may run scripts
// and nothing else, and prints as JSON what each frame shows in the end. A view imports its SDK from `SDK_URL`.
import { readFileSync } from "node:fs";
import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { AppBridge } from "@modelcontextprotocol/ext-apps/app-bridge";
import { chromium } from "playwright-core";

const asked = JSON.parse(process.argv[2]);
const sdk = readFileSync(new URL(import.meta.resolve("@modelcontextprotocol/ext-apps/app-with-deps")), "utf8");
const host = { name: "views", version: "1" };
const ui = { "io.modelcontextprotocol/ui": { mimeTypes: ["text/html;profile=mcp-app"] } };
const versionNegotiation = { mode: asked.era === "legacy" ? "legacy" : { pin: asked.era } };
const client = new Client(host, { capabilities: { extensions: ui }, versionNegotiation });
await client.connect(new StdioClientTransport(asked.server));

// What carries messages between the bridge, which is here, and the view, which is in a frame of the page.
function transport(page, number) {
  return {
    async start() {
      await page.exposeFunction(`fromView${number}`, (message) => this.onmessage?.(message));
    },
    async send(message) {
      await page.evaluate(([of, said]) => frames[of].postMessage(said, "*"), [number, message]);
    },
    async close() {},
  };
}

async function shown(page, number, tool) {
  const result = await client.callTool({ name: tool.name, arguments: {} });
  const { contents } = await client.readResource({ uri: tool._meta.ui.resourceUri });
  const html = contents[0].text.replace("SDK_URL", `data:text/javascript;base64,${Buffer.from(sdk).toString("base64")}`);
  const bridge = new AppBridge(client, host, { serverTools: {}, serverResources: {} });
  const ready = new Promise((done) => bridge.addEventListener("initialized", done));
  await bridge.connect(transport(page, number));
  await page.evaluate(
    ([of, srcdoc]) => {
      const frame = Object.assign(document.createElement("iframe"), { srcdoc });
      frame.sandbox = "allow-scripts";
      addEventListener("message", ({ data, source }) => source === frames[of] && window[`fromView${of}`](data));
      document.body.append(frame);
    },
    [number, html],
  );
  await ready;
  await bridge.sendToolInput({ arguments: {} });
  await bridge.sendToolResult(result);
  const frame = page.frames()[number + 1];
  await frame.waitForSelector("#done", { timeout: 30_000 });
  return { uri: tool._meta.ui.resourceUri, lines: (await frame.innerText("body")).trim().split("\n") };
}

const browser = await chromium.launch({ executablePath: asked.browser, args: ["--no-sandbox"] });
try {
  const page = await browser.newPage();
  for (const group of asked.open) await client.callTool({ name: "open_group", arguments: { group } });
  const { tools } = await client.listTools();
  const views = [];
  for (const [number, name] of asked.tools.entries()) {
    views.push(await shown(page, number, tools.find((tool) => tool.name === name)));
  }
  console.log(JSON.stringify(views));
} finally {
  await browser.close();
  await client.close();
}
