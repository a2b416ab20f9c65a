"""Follow pages of the documentation with what is installed, and of this checkout only the pages and their runner.

    python first_steps.py docs/tutorial/index.md

The environment needs pytest and PyYAML, too, which the runner uses.
"""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import toolfold

ROOT = Path(__file__).parents[2]


def main(pages: list[str]) -> None:
    """Run the pages; exit with what is not as they show it."""
    if Path(toolfold.__file__).is_relative_to(ROOT):
        sys.exit(f"toolfold is that of the checkout, {ROOT}, and not an installed one")
    sys.path.append(str(ROOT))
    from tests.process.docs.running import run

    for page in pages:
        with TemporaryDirectory() as folder:
            stale = run(Path(page).resolve(), Path(folder))
        if stale:
            sys.exit("\n\n".join(f"{page}, line {block.line} shows something else:\n{stale[block]}" for block in stale))
        print(f"{page}: as it shows")


if __name__ == "__main__":
    main(sys.argv[1:])
