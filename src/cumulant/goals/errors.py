"""What is said of a phrase that is no goal: one clear line, and where in the phrase the culprit stands."""

import unicodedata

from lark import Token


class LanguageError(ValueError):
    """A phrase that is no goal. `str` is one clear line; `pointed` adds the phrase with carets under the culprit.

    >>> import cumulant
    >>> try:
    ...     cumulant.parse("sqare left")
    ... except cumulant.LanguageError as error:
    ...     print(error.pointed)
    unknown word 'sqare'; did you mean 'square'?
      sqare left
      ^^^^^
    """

    def __init__(self, message: str, phrase: str = "", span: tuple[int, int] | None = None, suggestion: str = ""):
        """`span` is where in the phrase the culprit stands; `suggestion` is a word that could stand there instead."""
        super().__init__(message)
        self.phrase, self.span, self.suggestion = phrase, span, suggestion

    @property
    def pointed(self) -> str:
        """The message, and below it the phrase (or the part around the culprit) with carets."""
        if self.span is None:
            return str(self)
        start, end = self.span
        left = max(0, start - 40)
        visible = "".join(c if c.isprintable() else " " for c in self.phrase[left : end + 40])
        carets = max(1, _width(visible[start - left : end - left]))
        return f"{self}\n  {visible}\n  {' ' * _width(visible[: start - left])}{'^' * carets}"


def span_of(*words: Token) -> tuple[int, int]:
    """Where in the phrase words stand, from the first to the last."""
    return words[0].start_pos or 0, words[-1].end_pos or 0


def _width(text: str) -> int:
    """Columns on a terminal: wide characters take two, combining marks none."""
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in text)
    return len(text) + wide - sum(unicodedata.combining(c) > 0 for c in text)
