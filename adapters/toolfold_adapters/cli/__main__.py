"""`python -m toolfold_adapters.cli` is `toolfold`."""

from . import main

main()
