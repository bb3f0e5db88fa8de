"""Docstrings as Markdown, for the documentation's API page: examples are code, and a shape [d][m] is no link."""

import re
from typing import Any

import griffe

_EXAMPLE = re.compile(r"^>>> .*(?:\n.+)*", re.MULTILINE)  # up to the next blank line
_SHAPE = re.compile(r"\[(\w+)\]\[(\w+)\]")


class Docstrings(griffe.Extension):
    """Runs on every object whose docstring is shown; mkdocs.yml names this file."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Rewrite the docstring, if there is one."""
        if obj.docstring:
            text = _SHAPE.sub(r"\\[\1\\]\\[\2\\]", obj.docstring.value)
            obj.docstring.value = _EXAMPLE.sub(lambda example: f"```pycon\n{example[0]}\n```", text)
