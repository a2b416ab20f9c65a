"""Pages of documentation with pictures in them, built by Sphinx, MkDocs and Zensical (SPEC DIA-1)."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.support import SECONDS, SHOP, environment
from tests.diagrams.support import texts_of

RST = """
The shop
========

.. toolfold:: shop:tools
   :active: orders, orders.returns

.. toolfold:: shop:tools

.. toolfold::
   :view: transaction
"""
MARKDOWN = """
# The shop

```toolfold target=shop:tools active=orders,orders.returns
```

1. In a list:

   ~~~toolfold target=shop:tools
   ~~~

````text
```toolfold target=shown:as_text
```
````

```toolfold view=transaction
```
"""
QUOTED = """
# The shop

```toolfold target="shop:tools" active="orders,orders.returns"
```

1. In a list:

    ```toolfold target="shop:tools"
    ```

````text
```toolfold target="shown:as_text"
```
````

```toolfold view="transaction"
```
"""
ZENSICAL = """
site_name: Shop
theme: {font: false}
markdown_extensions:
  - pymdownx.superfences:
      custom_fences:
        - name: toolfold
          class: toolfold
          format: !!python/name:toolfold_cli.zensical.picture
          validator: !!python/name:toolfold_cli.zensical.accepted
"""
MKDOCS = "site_name: Shop\ntheme: readthedocs\nhooks: [hooks.py]\nplugins: []\n"


def built(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """The result of a build in a folder with the module `shop`."""
    (folder / "shop.py").write_text(SHOP, encoding="utf-8")
    return subprocess.run(
        [sys.executable, "-m", *command],
        cwd=folder,
        env=environment(folder),
        capture_output=True,
        encoding="utf-8",
        timeout=SECONDS * 2,
        check=False,
    )


def sphinx(folder: Path, page: str, builder: str = "html") -> subprocess.CompletedProcess[str]:
    (folder / "conf.py").write_text("extensions = ['toolfold_cli.sphinx']\n")
    (folder / "index.rst").write_text(page)
    return built(folder, "sphinx", "-q", "-j", "2", "-b", builder, ".", "site")


def mkdocs(folder: Path, page: str) -> subprocess.CompletedProcess[str]:
    (folder / "docs").mkdir()
    (folder / "docs" / "index.md").write_text(page)
    (folder / "mkdocs.yml").write_text(MKDOCS)
    (folder / "hooks.py").write_text(
        "from toolfold_cli.mkdocs import on_page_markdown\n\n__all__ = ['on_page_markdown']\n"
    )
    return built(folder, "mkdocs", "--quiet", "build", "--strict")


def zensical(folder: Path, page: str) -> subprocess.CompletedProcess[str]:
    (folder / "docs").mkdir()
    (folder / "docs" / "index.md").write_text(page)
    (folder / "mkdocs.yml").write_text(ZENSICAL)
    return built(folder, "zensical", "build", "--strict")


def check_pictures(html: str) -> None:
    """Check that a page has three pictures, readable on any ground, described, and with no id twice."""
    pictures = re.findall(r"<figure class=\"toolfold.*?(<svg .*?</svg>)</figure>", html, re.DOTALL)
    titles = [re.findall(r"<title>(.*?)</title>\s*<desc>(.*?)</desc>", svg)[0] for svg in pictures]
    assert titles == [
        ("shop: structure", "3 groups, 4 tools; open: orders, orders.returns."),
        ("shop: structure", "3 groups, 4 tools; none is open."),
        ("the life of one transition", ""),
    ]
    assert all('role="img"' in svg for svg in pictures)
    assert {"○ cellar", "Count what is in store"} <= set("\n".join(texts_of(pictures[0])).splitlines())
    ids = re.findall(r'\sid="([^"]*)"', "".join(pictures))
    assert not ids


@pytest.mark.spec("DIA-1", "DIA-3")
def test_a_directive_of_sphinx_is_a_picture_in_html_and_text_elsewhere(tmp_path: Path) -> None:
    done = sphinx(tmp_path, RST)
    assert (done.returncode, done.stderr) == (0, "")
    html = (tmp_path / "site" / "index.html").read_text(encoding="utf-8")
    check_pictures(html)
    assert "├─" not in html
    done = sphinx(tmp_path, RST, "text")
    assert (done.returncode, done.stderr) == (0, "")
    text = (tmp_path / "site" / "index.txt").read_text(encoding="utf-8")
    assert "├─ ○ cellar · 1 tool · excludes orders" in text
    assert "stateDiagram-v2" in text
    assert "<svg" not in text


@pytest.mark.spec("DIA-1", "DIA-3")
@pytest.mark.parametrize(
    ("build", "page", "shown"), [(mkdocs, MARKDOWN, "shown:as_text"), (zensical, QUOTED, '"shown:as_text"')]
)
def test_a_fence_of_markdown_is_a_picture_and_other_fences_are_not(
    build: Callable[[Path, str], subprocess.CompletedProcess[str]], page: str, shown: str, tmp_path: Path
) -> None:
    done = build(tmp_path, page)
    assert done.returncode == 0, done.stderr
    html = (tmp_path / "site" / "index.html").read_text(encoding="utf-8")
    check_pictures(html)
    assert f"```toolfold target={shown}" in re.sub("<[^>]*>", "", html).replace("&quot;", '"')


@pytest.mark.spec("DIA-1", "ERR-2")
@pytest.mark.parametrize(
    ("build", "page", "place"),
    [
        (sphinx, ".. toolfold:: shop:nothing\n", "index.rst:1: ERROR: "),
        (mkdocs, "# Page\n\n```toolfold target=shop:nothing\n```\n", "toolfold: index.md, line 3: "),
    ],
)
def test_a_picture_that_cannot_be_drawn_fails_the_build_with_its_place_and_the_reason(
    build: Callable[[Path, str], subprocess.CompletedProcess[str]], page: str, place: str, tmp_path: Path
) -> None:
    done = build(tmp_path, page)
    assert done.returncode != 0
    assert f"{place}shop:nothing does not exist. In 'shop' there is shop:tools, shop:make" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.spec("DIA-1", "ERR-2")
def test_zensical_fails_with_the_reason(tmp_path: Path) -> None:
    done = zensical(tmp_path, '# Page\n\n```toolfold target="shop:nothing"\n```\n')
    assert done.returncode != 0
    assert "toolfold: shop:nothing does not exist. In 'shop' there is shop:tools, shop:make" in done.stderr
