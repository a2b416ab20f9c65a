// Drives a browser. Argument: its path. Reads lines of [{ url, width, height, scheme, steps: [[verb, …], …] }, …], and
// writes a line for each: what the steps of each job gave, what was requested, and what the page complained of.
import { createInterface } from "node:readline";
import { chromium } from "playwright-core";

// In the page: presses the button of each of these groups, and says after each what the page shows.
function walked(numbers) {
  const textsOf = (selector) => [...document.querySelectorAll(selector)].map(({ textContent }) => textContent);
  document.querySelector("#now").open = true;
  return numbers.map((group) => {
    document.querySelector(`[data-node="${group}"] .switch`).click();
    return {
      states: textsOf("[role=treeitem] .state"),
      displaced: textsOf("#step .displaced li"),
      error: textsOf("#outcome .error").join(),
      refusal: textsOf("#outcome .refusal:not(.outcome)").join(),
      listed: textsOf("#now li"),
      added: textsOf("#step .added li"),
      removed: textsOf("#step .removed li"),
      cost: textsOf("#step .cost").join(),
    };
  });
}

// In the page: opens what is folded, and waits until it has said so itself.
function unfolded(all) {
  const opened = (each) => new Promise((done) => each.addEventListener("toggle", done, { once: true }));
  return Promise.all(all.map((each) => ((each.open = true), opened(each)))).then(() => all.length);
}

// In the page: what is wider than its place. What is cut off on purpose, or scrolls, is not.
function overflowing() {
  const isWide = (each) => each.scrollWidth > each.clientWidth + 1 && each.clientWidth > 0;
  const isPlace = (each) =>
    each instanceof HTMLElement &&
    getComputedStyle(each).display !== "inline" &&
    getComputedStyle(each).overflowX === "visible";
  return [...document.querySelectorAll("body, body *")]
    .filter((each) => isWide(each) && isPlace(each))
    .map((each) => `${each.tagName} ${each.className}: ${each.textContent.slice(0, 30)}`);
}

// In the page, which has Mermaid: what each text is drawn as, or why it can't be.
async function drawn([settings, texts]) {
  mermaid.initialize({ startOnLoad: false, ...settings });
  const ACTIVE = "script, iframe, object, embed, form, input, img, video, audio, link, base, a, b, i";
  const isActive = ({ name, value }) => /^on|href$|^src$|action$/.test(name) && !value.startsWith("#");
  const isCut = ({ firstElementChild: held }) => held && held.scrollWidth > held.clientWidth + 1;
  const described = (svg) => ({
    shown: svg.textContent,
    error: svg.getAttribute("aria-roledescription") === "error" ? "an error is drawn" : null,
    injected: [
      ...[...svg.querySelectorAll(ACTIVE)].map(({ outerHTML }) => outerHTML),
      ...[...svg.querySelectorAll("*")].flatMap((each) =>
        [...each.attributes].filter(isActive).map(({ value }) => value),
      ),
    ],
    cut: [...svg.querySelectorAll("foreignObject")].filter(isCut).map(({ textContent }) => textContent),
    width: svg.viewBox.baseVal.width,
  });
  const said = [];
  for (const [number, text] of texts.entries()) {
    try {
      const { svg } = await mermaid.render(`drawn${number}`, text);
      document.body.innerHTML = svg;
      said.push(described(document.body.querySelector("svg")));
    } catch (error) {
      said.push({ error: String(error) });
    }
  }
  return said;
}

const VERBS = {
  draw: (settings, texts) => page.evaluate(drawn, [settings, texts]),
  walk: (numbers) => page.evaluate(walked, numbers),
  click: (selector) => page.click(selector),
  unfold: (selector) => page.locator(selector).evaluateAll(unfolded),
  fill: (selector, text) => page.fill(selector, text),
  wait: (selector) => page.locator(selector).first().waitFor({ state: "attached" }),
  press: (key) => page.keyboard.press(key),
  texts: (selector) => page.locator(selector).allTextContents(),
  shown: (selector) => page.locator(selector).filter({ visible: true }).allTextContents(),
  attributes: (selector, name) =>
    page.locator(selector).evaluateAll((all, name) => all.map((each) => each.getAttribute(name)), name),
  count: (selector) => page.locator(selector).count(),
  evaluate: (code) => page.evaluate(code),
  overflow: () => page.evaluate(overflowing),
  shot: (path) => page.screenshot({ path }).then(() => null),
};

// Without its sandbox, since the root of a container may have none.
const browser = await chromium.launch({ executablePath: process.argv[2], args: ["--no-sandbox"] });
let page;
let said;

// Opens a page, and closes the one before it, of which nothing is requested or complained any more.
async function open({ url, width = 1400, height = 900, scheme = "light", motion = "no-preference" }) {
  await page?.close();
  said = { results: [], requests: [], complaints: [] };
  page = await browser.newPage({ viewport: { width, height }, colorScheme: scheme, reducedMotion: motion });
  page.setDefaultTimeout(60_000);
  page.on("request", (request) => said.requests.push(request.url()));
  page.on("console", (message) => said.complaints.push(message.text()));
  page.on("pageerror", (error) => said.complaints.push(String(error)));
  page.on("dialog", (dialog) => (said.complaints.push(dialog.message()), dialog.dismiss()));
  await page.addInitScript(() =>
    document.addEventListener("securitypolicyviolation", (event) => console.error(event.violatedDirective)),
  );
  const begun = performance.now();
  await page.goto(url);
  said.opened = performance.now() - begun;
}

async function done({ steps, ...job }) {
  if (job.url) await open(job);
  said = { ...said, results: [] };
  for (const [verb, ...given] of steps) said.results.push((await VERBS[verb](...given)) ?? null);
  return said;
}

for await (const line of createInterface({ input: process.stdin })) {
  // What hangs ends everything, and so fails the test that waits for an answer.
  const watch = setTimeout(() => process.exit(1), 300_000);
  const results = [];
  for (const job of JSON.parse(line)) results.push(await done(job).catch((error) => ({ error: String(error) })));
  process.stdout.write(`${JSON.stringify(results)}\n`);
  clearTimeout(watch);
}
await browser.close();
