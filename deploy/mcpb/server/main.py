"""The `toolfold` command, started by the host of the bundle with the arguments of its manifest."""

from toolfold_cli import main

main()
