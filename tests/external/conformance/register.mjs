// Gives the conformance suite's runner scenarios of ours: `node --import register.mjs …/conformance/dist/index.js …`.
//
// The runner takes no scenarios from outside, and its one file exports nothing. So the text of that file is changed as
// it is loaded, in one place: where it makes a map of its scenarios for servers by their names, ours are among them.

import { registerHooks } from "node:module";

const RUNNER = /conformance\/dist\/index\.js$/;
const MAP = /new Map\(([\w$]+)\.map\(([\w$]+)=>\[\2\.name,\2\]\)\)/g;
const OURS = new URL("scenarios/definition-tags.ts", import.meta.url).href;

const ADDITION = `
import { definitionTagsScenarios } from ${JSON.stringify(OURS)};
function withOurs(list) {
  if (list.some(({ name }) => name === "server-stateless")) list.push(...definitionTagsScenarios);
  return list;
}
`;

registerHooks({
  load(url, context, next) {
    const loaded = next(url, context);
    if (!RUNNER.test(url)) return loaded;
    let places = 0;
    const source = loaded.source.toString().replace(MAP, (_, list, one) => {
      places += 1;
      return `new Map(withOurs(${list}).map(${one}=>[${one}.name,${one}]))`;
    });
    if (places === 0) throw new Error("the runner makes no map of its scenarios any more");
    return { ...loaded, source: source + ADDITION };
  },
});
