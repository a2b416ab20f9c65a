"""The command: `python -m verification.proofs`."""

import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the report on all proofs; return 0, 1 if an answer is unexpected, or 2 if z3 is missing."""
    try:
        from verification.proofs.examination import run
    except ModuleNotFoundError as error:
        if error.name != "z3":
            raise
        print("The proofs need z3. Install it with: pip install z3-solver", file=sys.stderr)
        return 2
    return run(arguments)


if __name__ == "__main__":
    sys.exit(main())
