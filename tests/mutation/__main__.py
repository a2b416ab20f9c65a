"""Run it: `python -m tests.mutation` from the root of a checkout."""

from tests.mutation.run import main

if __name__ == "__main__":
    raise SystemExit(main())
