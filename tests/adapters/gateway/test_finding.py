"""Which server a resource is of that no list has under its URI."""

from __future__ import annotations

from random import Random

import pytest

from toolfold_adapters.gateway.finding import Finder
from toolfold_adapters.gateway.grouping import Placed

pytestmark = pytest.mark.spec("GWY-1", "SAF-1")


def resource(server: str, uri: str) -> Placed:
    kind = "resource_template" if "{" in uri else "resource"
    return Placed(server=server, kind=kind, original=uri, name=uri, definition={"uri": uri})  # type: ignore[arg-type]


def nearest_of_all(components: list[Placed], uri: str, left_out: str) -> set[str]:
    """The servers that list what begins most like a URI, by looking at all of it."""
    alike = [(_alike(uri, one.name.partition("{")[0]), one.server) for one in components if one.server != left_out]
    most = max(length for length, _ in alike)
    return {server for length, server in alike if length == most} if most > uri.find(":") else set()


def _alike(one: str, other: str) -> int:
    return next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


@pytest.mark.parametrize("seed", range(20))
def test_the_nearest_server_is_the_one_that_looking_at_everything_finds(seed: int) -> None:
    random = Random(seed)

    def uri() -> str:
        return f"{random.choice('ab')}://{''.join(random.choices('xy/', k=random.randint(0, 6)))}"

    listed = {uri() + random.choice(["", "{page}"]): random.choice("stu") for _ in range(30)}
    components = [resource(server, name) for name, server in listed.items()]
    finder = Finder(components)
    for _ in range(50):
        asked, left_out = uri(), random.choice(["", "s"])
        expected = nearest_of_all(components, asked, left_out)
        found = finder.nearest(asked, {"s", "t", "u"}.difference([left_out]).__contains__)
        assert found in expected if expected else found is None


def test_a_uri_with_a_scheme_that_no_server_lists_is_of_none() -> None:
    finder = Finder([resource("s", "shop://list"), resource("s", "{+any}")])
    assert [finder.nearest(uri, lambda server: True) for uri in ("db://list", "shops://list")] == [None] * 2
