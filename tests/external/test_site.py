"""The site of the documentation in a real browser: it asks for nothing from elsewhere, and its search works."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.external.browser import Browser
from tests.process.docs.site import build

pytestmark = pytest.mark.xdist_group("site")  # which is built once then


class Quiet(SimpleHTTPRequestHandler):
    """Serves files, and says nothing."""

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the site, served on loopback."""
    site: Path = build(tmp_path_factory.mktemp("site"))
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("page", ["index", "tutorial/index", "explanation/machine", "reference/toolfold"])
def test_a_page_asks_for_nothing_from_elsewhere(page: str, scheme: str, address: str, browser: Browser) -> None:
    (said,) = browser.do({"url": f"{address}{page}.html", "steps": [["texts", "h1"]], "scheme": scheme})
    assert said["results"][0]
    assert [url for url in said["requests"] if not url.startswith((address, "data:", "blob:"))] == []
    assert said["complaints"] == []


def test_the_search_finds_a_name_of_the_reference_with_only_the_keyboard(address: str, browser: Browser) -> None:
    typed = [["press", key] for key in "FollowingC"]
    opened = [["wait", "[role=combobox]"], ["press", "Control+k"], ["wait", "[role=combobox]:focus"]]
    steps = [*opened, *typed, ["wait", 'dialog:has-text("FollowingClient")']]
    (said,) = browser.do({"url": f"{address}index.html", "steps": steps})
    assert [url for url in said["requests"] if not url.startswith((address, "data:", "blob:"))] == []
