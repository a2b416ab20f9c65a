"""A hook of MkDocs: fences such as the following become pictures of a target.

    ```toolfold target=shop:tools view=statechart active=orders,stock
    ```

Name a file in `hooks` of `mkdocs.yml` that has `from toolfold_cli.mkdocs import on_page_markdown`. What may follow
`toolfold` is `target` and `pictures.OPTIONS`. A picture that can't be drawn fails the build.
"""

from __future__ import annotations

import re
import shlex
from typing import Any

import click
from mkdocs.exceptions import PluginError
from mkdocs.structure.pages import Page

from .diagram import OPTIONS, page_picture

_FENCE = re.compile(
    r"^(?P<indent>[ \t]*)(?P<fence>`{3,}|~{3,})(?P<info>[^\n]*)\n(?:.*?\n)??(?P=indent)(?P=fence)[`~]*[ \t]*$",
    re.MULTILINE | re.DOTALL,
)


def on_page_markdown(markdown: str, *, page: Page, **_: Any) -> str:
    """Return a page with pictures in place of fences; other fences are left as they are."""

    def drawn(fence: re.Match[str]) -> str:
        language, _, info = fence["info"].strip().partition(" ")
        if language != "toolfold":
            return fence[0]
        line = markdown.count("\n", 0, fence.start()) + 1
        try:
            return fence["indent"] + _picture(info)
        except click.ClickException as error:
            raise PluginError(f"toolfold: {page.file.src_uri}, line {line}: {error.message}") from error

    return _FENCE.sub(drawn, markdown)


def _picture(info: str) -> str:
    try:
        words = shlex.split(info)
    except ValueError as error:
        raise click.ClickException(f"The words after toolfold can't be read: {error}.") from error
    given = {name: value for name, _, value in (word.partition("=") for word in words)}
    if unnamed := [word for word in words if "=" not in word]:
        raise click.ClickException(
            f"{unnamed[0]!r} is not NAME=VALUE: write target=module:attribute, and any of {', '.join(OPTIONS)}."
        )
    return page_picture(given.pop("target", None), given).html
