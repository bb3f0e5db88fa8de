"""The words of a phrase: which there are, which are filler, where each stands; and what is said of a wrong one."""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from functools import lru_cache
from itertools import islice

from lark import Token

from cumulant.goals.clauses import MAX_CLAUSES
from cumulant.goals.tasks import MAX_BINS, THIRDS, describe

MAX_CHARACTERS = 2000  # that a person writes; a canonical phrase may be longer, and is read as well
MAX_DEPTH = 50
_LIKENESS = 0.7  # of a misspelt word and the one suggested, at least: a star is no square
FILLER = frozenset("get move put bring the a to at in into of on towards side corner position region first".split())
_LOGIC = {"and": "AND", "or": "OR", "not": "NOT", "(": "OPEN", ")": "CLOSE"}
PLANNING = {"then": "THEN", "keep": "KEEP", "without": "WITHOUT"}  # "and then" is the same as "then", and so on
_RESERVED = _LOGIC | PLANNING
AXES = {word: axis for axis, words in THIRDS.items() for word in words}
_PLACES = frozenset(AXES) | {"center", "anywhere"}
_WORD = re.compile(r"[xy]\s*\d+(?:\s*,\s*\d+)*\s*/\s*\d+(?!\w)|[()]|[^\s(),.;:!?\"-]+", re.IGNORECASE)
_NAME = re.compile(r"[^\s(),.;:!?\"-]+")
GRID = re.compile(r"([xy])([\d,\s]+)/\s*(\d+)", re.IGNORECASE)


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


@lru_cache(maxsize=64)
def _names(sprites: tuple[str, ...]) -> dict[str, str]:
    """What a phrase may call each sprite; refuses sprites that no phrase could name, or not one alone."""
    names: dict[str, str] = {}
    for sprite in sprites:
        word = sprite.lower()
        if word in _RESERVED or word in _PLACES or word in names or not _NAME.fullmatch(word):
            raise LanguageError(f"no phrase can name the sprite {sprite!r}: a name is one word of its own")
        names[word] = sprite
    if not names:
        raise LanguageError("no phrase means anything in a world without sprites")
    return names


@lru_cache(maxsize=64)
def _longest(sprites: tuple[str, ...]) -> int:
    """Characters that are read: as many as the longest canonical phrase has, so that each parses back."""
    bins = range(1, MAX_BINS)  # all but one, and that of one digit
    condition = [f"{sprite} {describe(axis, bins, MAX_BINS)} and " for sprite in sprites for axis in "xy"]
    return max(MAX_CHARACTERS, MAX_CLAUSES * len("".join([*condition, " and keep "])))


def words_of(phrase: str, sprites: Sequence[str]) -> list[Token]:
    """The words that carry meaning, at most as many as a canonical phrase may have or a person may write."""
    names, longest = _names(tuple(sprites)), _longest(tuple(sprites))
    if len(phrase) > longest:
        raise LanguageError(f"the phrase has {len(phrase):,} characters, and at most {longest:,} are read")
    limit = max(MAX_CHARACTERS, MAX_CLAUSES * (2 * len(names) * len("sprite not place and".split()) + len(PLANNING)))
    words = list(islice(_recognised(phrase, names), limit + 1))
    if len(words) > limit:
        raise LanguageError(f"the phrase has more than {limit:,} words, which are all that is read")
    if not words:
        raise LanguageError(f"the phrase names no goal: try '{sprites[-1]} top left'")
    _refuse_depth(words, phrase)
    return [word for word, following in zip(words, [*words[1:], None], strict=True) if not _idle(word, following)]


def _idle(word: Token, following: Token | None) -> bool:
    """Whether a word adds nothing to the next: the `and` of "and then"."""
    return word.type == "_AND" and following is not None and following.type[1:] in PLANNING.values()


def _recognised(phrase: str, names: dict[str, str]) -> Iterator[Token]:
    """Every word but filler, with its kind and its place in the phrase."""
    for match in _WORD.finditer(phrase):
        word, span = match[0].lower(), match.span()
        if word in names:
            kind, word = "SPRITE", names[word]
        elif word in FILLER:
            continue
        elif word in _RESERVED:
            kind = "_" + _RESERVED[word]
        elif word in _PLACES or GRID.fullmatch(word):
            kind, word = "WHERE", word.replace("center", "centre")
        else:
            raise _unknown(word, phrase, span, tuple(names.values()))
        yield Token(kind, word, start_pos=span[0], end_pos=span[1])


def _unknown(word: str, phrase: str, span: tuple[int, int], sprites: tuple[str, ...]) -> LanguageError:
    known = [*sprites, *_PLACES, "and", "or", "not", *PLANNING]
    suggestion = next(iter(get_close_matches(word, known, n=1, cutoff=_LIKENESS)), "")
    hint = f"; did you mean {suggestion!r}?" if suggestion else f": this world has {', '.join(sprites)}"
    shown = word if len(word) <= 40 else word[:40] + "…"
    return LanguageError(f"unknown word {shown!r}{hint}", phrase, span, suggestion)


def _refuse_depth(words: list[Token], phrase: str) -> None:
    """Refuse what no person means before it can exhaust the stack."""
    parentheses = negations = 0
    for word in words:
        parentheses += (word.type == "_OPEN") - (word.type == "_CLOSE")
        negations = negations + 1 if word.type == "_NOT" else negations if word.type == "_OPEN" else 0
        if parentheses + negations > MAX_DEPTH:
            raise LanguageError(f"the phrase is nested more than {MAX_DEPTH} deep", phrase, span_of(word))


def span_of(word: Token) -> tuple[int, int]:
    """Where in the phrase a word stands."""
    return word.start_pos or 0, word.end_pos or 0


def _width(text: str) -> int:
    """Columns on a terminal: wide characters take two, combining marks none."""
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in text)
    return len(text) + wide - sum(unicodedata.combining(c) > 0 for c in text)
