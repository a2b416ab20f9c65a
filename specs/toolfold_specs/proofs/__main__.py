"""The command: `python -m toolfold_specs.proofs`."""

import sys
from collections.abc import Sequence

from toolfold import MissingExtra


def main(arguments: Sequence[str] | None = None) -> int:
    """Prove everything and print it; return 0, 1 if something is not as it should be, or 2 if z3 is missing."""
    try:
        from toolfold_specs.proofs.report import run
    except MissingExtra as error:
        print(error, file=sys.stderr)
        return 2
    return run(arguments)


if __name__ == "__main__":
    sys.exit(main())
