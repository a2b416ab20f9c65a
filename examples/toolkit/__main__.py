"""Shows in a few lines what document D is about: `python -m examples.toolkit`."""

from __future__ import annotations

import anyio

from toolfold import Session

from . import build


async def find(session: Session, **asked: object) -> str:
    """Return what the catalog tool finds: names with their categories, hidden ones in brackets."""
    found = (await session.call("catalog", asked)).structured
    return "; ".join(
        f"{section}: " + ", ".join(_described(entry) for entry in entries)
        for section, entries in found.items()
        if entries
    )


def _described(entry: dict[str, object]) -> str:
    name = f"({entry['name']})" if entry["hidden"] else str(entry["name"])
    return f"{name} [{entry['category']}]" if "category" in entry else name


async def main() -> None:
    async with build().open_session() as session:
        print("Listed:        ", ", ".join(session.list_tools().names))
        print("Housekeeping:  ", await find(session, category="housekeeping", type="tools"))
        print("About notes:   ", await find(session, query="note"))
        print("Defaults:      ", (await session.call("say", {"message": "hello", "repeat": 2})).text)
        print("Out of bounds: ", (await session.call("say", {"message": "hello", "repeat": 11})).text)
        print("Hidden, called:", (await session.call("forget_notes")).text)
        await session.activate("reports")
        print("In a group:    ", (await session.call("reports.weekly", {"week": 41})).text)
        print("Wrong result:  ", (await session.call("reports.weekly", {"week": 1})).text)
        await session.call("unlock", {"phrase": "open sesame"})
        print("Unlocked:      ", await find(session, category="power", type="tools"))


if __name__ == "__main__":
    anyio.run(main)
