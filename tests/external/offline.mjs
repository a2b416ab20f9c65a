// Loaded before a server, takes the place of the web and of the clock: what the server says is the same each time.
const FOUND = { total_count: 1, incomplete_results: false, items: [] };
const MISSING = { message: "There is no such repository" };
const local = globalThis.fetch;

globalThis.fetch = async (url, options) => {
  if (String(url).startsWith("data:")) return local(url, options);
  return String(url).includes("/search/") ? Response.json(FOUND) : Response.json(MISSING, { status: 404 });
};
Date.prototype.toLocaleTimeString = () => "noon";
