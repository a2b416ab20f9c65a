"""Pictures in pages that Zensical builds, or MkDocs with the extension `pymdownx.superfences`.

    ```toolfold target="shop:tools" view="statechart" active="orders,stock"
    ```

Name `picture` and `accepted` in a custom fence of `pymdownx.superfences`. The words after `toolfold` are
`target` and `pictures.OPTIONS`. A picture that can't be drawn fails the build.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click
from pymdownx.superfences import SuperFencesException  # pyright: ignore[reportMissingTypeStubs]

from .diagram import page_picture


def accepted(_language: str, given: Mapping[str, Any], options: dict[str, Any], *_: object) -> bool:
    """Return whether the words after `toolfold` may be options: any may, as `picture` says what is wrong with one."""
    options.update(given)
    return True


def picture(_source: str, _language: str, _class: str, options: Mapping[str, Any], _md: object, **_: Any) -> str:
    """Return the picture that a fence describes, as HTML."""
    given = dict(options)
    try:
        return page_picture(given.pop("target", None), given).html
    except click.ClickException as error:
        raise SuperFencesException(f"toolfold: {error.message}") from error
