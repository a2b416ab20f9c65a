// Unpacks a bundle as its host does, and prints as JSON how the host starts the server in it.
//
//     node bundle.mjs BUNDLE FOLDER '{"configuration": "…"}'

import { readFileSync } from "node:fs";
import { getMcpConfigForManifest, unpackExtension } from "@anthropic-ai/mcpb";

const [bundle, folder, userConfig] = process.argv.slice(2);
await unpackExtension({ mcpbPath: bundle, outputDir: folder, silent: true });
const manifest = JSON.parse(readFileSync(`${folder}/manifest.json`, "utf-8"));
const config = await getMcpConfigForManifest({
  manifest,
  extensionPath: folder,
  systemDirs: {},
  userConfig: JSON.parse(userConfig),
  pathSeparator: "/",
});
console.log(JSON.stringify(config ?? null));
