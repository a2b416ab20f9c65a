// Answers in place of the web, for a server that asks it: one repository is there, nothing else.
const FOUND = { total_count: 1, incomplete_results: false, items: [] };

globalThis.fetch = async (url) =>
  String(url).includes("/search/")
    ? Response.json(FOUND)
    : Response.json({ message: "There is no such repository" }, { status: 404 });
