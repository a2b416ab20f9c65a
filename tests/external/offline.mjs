// Loaded before a server, takes the place of the web and of the clock: what the server says is the same each time.
const local = globalThis.fetch;

globalThis.fetch = async (url, options) =>
  String(url).startsWith("data:") ? local(url, options) : new Response("There is no web", { status: 404 });
Date.prototype.toLocaleTimeString = () => "noon";
