"""The fixtures that the tests of the command line share, whether in this process or in others."""

from tests.cli.conftest import shop

__all__ = ["shop"]
