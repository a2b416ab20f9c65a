"""An extension of Sphinx: `.. toolfold:: module:attribute` is a picture of a target in a page.

Add `"toolfold_cli.sphinx"` to `extensions`. The options of the directive are `pictures.OPTIONS`. Pages other than HTML
have the groups as text. A picture that can't be drawn is reported as an error, and the build fails.
"""

from __future__ import annotations

from typing import Any

import click
from docutils import nodes
from docutils.parsers.rst import directives
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util.docutils import SphinxDirective
from sphinx.util.logging import getLogger

from toolfold import __version__

from .diagram import OPTIONS, page_picture

FAILED = "toolfold_failed"
"""The key in the metadata of a page with a picture that can't be drawn: Sphinx merges these of parallel readers."""


class Picture(SphinxDirective):
    """The directive: a picture of a target."""

    optional_arguments = 1
    final_argument_whitespace = True
    option_spec = dict.fromkeys(OPTIONS, directives.unchanged_required)

    def run(self) -> list[nodes.Node]:
        """Return the picture for HTML, and the text for other builders."""
        try:
            picture = page_picture(self.arguments[0] if self.arguments else None, self.options)
        except click.ClickException as error:
            getLogger(__name__).error(error.message, location=self.get_location(), type="toolfold")
            self.env.metadata[self.env.docname][FAILED] = True
            self.env.note_reread()
            return []
        if picture.file is not None:
            self.env.note_dependency(str(picture.file.resolve()))
        forms = {"html": nodes.raw("", picture.html, format="html"), "not html": nodes.literal_block("", picture.text)}
        return [addnodes.only("", form, expr=expression) for expression, form in forms.items()]


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive."""
    app.add_directive("toolfold", Picture)
    app.connect("env-check-consistency", _fail)
    return {"version": __version__, "parallel_read_safe": True, "parallel_write_safe": True}


def _fail(app: Sphinx, env: BuildEnvironment) -> None:
    if any(FAILED in metadata for metadata in env.metadata.values()):
        app.statuscode = 1
