"""The command: `python -m verification.proofs`."""

import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Prove everything and print it; return 0, 1 if something is not as it should be, or 2 if z3 is missing."""
    try:
        from verification.proofs.report import run
    except ModuleNotFoundError as error:
        if error.name != "z3":
            raise
        print("The proofs need z3. Install it with: pip install z3-solver", file=sys.stderr)
        return 2
    return run(arguments)


if __name__ == "__main__":
    sys.exit(main())
