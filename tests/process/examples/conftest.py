"""What tests of examples begin with, as in `tests/examples`."""

from tests.examples.conftest import connect, hub, page

__all__ = ["connect", "hub", "page"]
