"""`python -m toolfold_cli` is `toolfold`."""

from . import main

main()
