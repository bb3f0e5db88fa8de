"""Phrase → task: a small English for goals, such as "get the square to the top left and the circle to the right"."""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from functools import lru_cache, reduce
from itertools import islice
from operator import and_
from typing import Any, cast

from lark import Lark, Token, Tree, UnexpectedToken
from lark.lexer import Lexer

from cumulant.goals.clauses import MAX_CLAUSES, Clauses, TooComplex, packing
from cumulant.goals.tasks import MAX_BINS, THIRDS, Task, describe, members

MAX_CHARACTERS = 2000  # that a person writes; a canonical phrase may be longer, and is read as well
MAX_DEPTH = 50
_LIKENESS = 0.7  # of a misspelt word and the one suggested, at least: a star is no square
FILLER = frozenset("get move put bring the a to at in into of on towards side corner position region".split())
_LOGIC = {"and": "AND", "or": "OR", "not": "NOT", "(": "OPEN", ")": "CLOSE"}
_AXES = {word: axis for axis, words in THIRDS.items() for word in words}
_PLACES = frozenset(_AXES) | {"center", "anywhere"}
_WORD = re.compile(r"[xy]\s*\d+(?:\s*,\s*\d+)*\s*/\s*\d+(?!\w)|[()]|[^\s(),.;:!?\"-]+", re.IGNORECASE)
_NAME = re.compile(r"[^\s(),.;:!?\"-]+")
_GRID = re.compile(r"([xy])([\d,\s]+)/\s*(\d+)", re.IGNORECASE)

# A subject may be several sprites ("square and circle left"); a place without one repeats the last ("left or right").
# A `not` right before a place belongs to it and holds for every sprite of the subject: "square and circle not left" is
# neither. A `not` before a sprite or a parenthesis is of all that follows: "not (square and circle left)" is not both.
_GRAMMAR = """
    ?start: either
    ?either: both (_OR both)*
    ?both: negation (_AND negation)*
    ?negation: condition | _NOT negation -> negated
    ?condition: subject place -> placed | where -> repeated | _OPEN either _CLOSE
    subject: SPRITE | SPRITE (_AND SPRITE)+ -> both_of | SPRITE (_OR SPRITE)+ -> either_of
    ?place: where | _NOT where -> negated
    where: WHERE+
    %declare _AND _OR _NOT _OPEN _CLOSE SPRITE WHERE
"""


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


def parse(phrase: str, sprites: Sequence[str] = ("agent", "square", "circle")) -> Task:
    """What the phrase asks of these sprites. Raises LanguageError, which says what is wrong, where, and what to try.

    >>> import cumulant
    >>> print(cumulant.parse("get the square to the top left, and the circle not to the right"))
    square top left and circle not right
    """
    names = _names(tuple(sprites))
    limit = _longest(tuple(sprites))
    if len(phrase) > limit:
        raise LanguageError(f"the phrase has {len(phrase):,} characters, and at most {limit:,} are read")
    words = _words(phrase, names)
    if not words:
        raise LanguageError(f"the phrase names no goal: try '{sprites[-1]} top left'")
    _refuse_depth(words, phrase)
    try:
        meaning = _PARSER.parse(words)  # our lexer takes words, not text
    except UnexpectedToken as error:
        raise _misplaced(error, words, phrase, sprites) from None
    return _Meaning(phrase, sprites, words).task(meaning)


@lru_cache(maxsize=64)
def _names(sprites: tuple[str, ...]) -> dict[str, str]:
    """What a phrase may call each sprite; refuses sprites that no phrase could name, or not one alone."""
    names: dict[str, str] = {}
    for sprite in sprites:
        word = sprite.lower()
        if word in _LOGIC or word in _PLACES or word in names or not _NAME.fullmatch(word):
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
    return max(MAX_CHARACTERS, MAX_CLAUSES * len("".join(condition)))


def _words(phrase: str, names: dict[str, str]) -> list[Token]:
    """The words that carry meaning, at most as many as a canonical phrase may have or a person may write."""
    limit = max(MAX_CHARACTERS, MAX_CLAUSES * 2 * len(names) * len("sprite not place and".split()))
    words = list(islice(_recognised(phrase, names), limit + 1))
    if len(words) > limit:
        raise LanguageError(f"the phrase has more than {limit:,} words, which are all that is read")
    return words


def _recognised(phrase: str, names: dict[str, str]) -> Iterator[Token]:
    """Every word but filler, with its kind and its place in the phrase."""
    for match in _WORD.finditer(phrase):
        word, span = match[0].lower(), match.span()
        if word in names:
            kind, word = "SPRITE", names[word]
        elif word in FILLER:
            continue
        elif word in _LOGIC:
            kind = "_" + _LOGIC[word]
        elif word in _PLACES or _GRID.fullmatch(word):
            kind, word = "WHERE", word.replace("center", "centre")
        else:
            raise _unknown(word, phrase, span, tuple(names.values()))
        yield Token(kind, word, start_pos=span[0], end_pos=span[1])


def _unknown(word: str, phrase: str, span: tuple[int, int], sprites: tuple[str, ...]) -> LanguageError:
    known = [*sprites, *_PLACES, "and", "or", "not"]
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
            raise LanguageError(f"the phrase is nested more than {MAX_DEPTH} deep", phrase, _span(word))


def _misplaced(error: UnexpectedToken, words: list[Token], phrase: str, sprites: Sequence[str]) -> LanguageError:
    """Say what was expected in place of the unexpected word, or after the last one."""
    expected = error.accepts or error.expected
    if "_CLOSE" in expected:
        hint = "a parenthesis is still open"
    elif "$END" in expected:
        hint = "expected 'and' or 'or'"
    elif "SPRITE" in expected:
        hint = f"name a sprite: {', '.join(sprites)}"
    else:
        hint = "say where: left, centre or right, top, middle or bottom"
    if error.token.type == "$END":
        end = words[-1].end_pos or 0
        return LanguageError(f"the phrase ends too early: {hint}", phrase, (end, end + 1))
    return LanguageError(f"did not expect {str(error.token)!r} here: {hint}", phrase, _span(error.token))


class _GivenWords(Lexer):
    """Lets Lark parse words that were recognised already."""

    def __init__(self, lexer_conf: Any):
        pass

    def lex(self, words: Any) -> Iterator[Token]:  # type: ignore[override]  # Lark's interface for custom lexers
        yield from words


_PARSER = Lark(_GRAMMAR, parser="lalr", lexer=_GivenWords)


class _Meaning:
    """Turns what was parsed into a task, from left to right."""

    def __init__(self, phrase: str, sprites: Sequence[str], words: list[Token]):
        self.phrase = phrase
        self.bins = self._grid([word for word in words if word.type == "WHERE" and word != "anywhere"])
        self.coordinates = tuple(f"{sprite}_{axis}" for sprite in sprites for axis in "xy")
        self.index = {name: i for i, name in enumerate(self.coordinates)}
        self.packing = packing(len(self.coordinates), self.bins)
        self.subject: Tree | None = None
        self.contradiction = "no state can satisfy this goal"

    def task(self, meaning: Tree) -> Task:
        """The whole phrase's task."""
        try:
            clauses = self._build(meaning, negate=False)
        except TooComplex as error:
            raise LanguageError(str(error)) from None
        if not clauses:
            raise LanguageError(f"this goal contradicts itself: {self.contradiction}")
        return Task(self.coordinates, self.packing.sorted(clauses), self.bins)

    def _grid(self, places: list[Token]) -> int:
        """A phrase speaks of thirds or of one number of bins, not of two grids at once."""
        bins = 0
        for place in places:
            grid = _GRID.fullmatch(place)
            of = int(grid[3][:9]) if grid else 3
            if not 1 <= of <= MAX_BINS:
                raise LanguageError(f"a coordinate has 1 to {MAX_BINS} bins", self.phrase, _span(place))
            if bins not in (0, of):
                message = f"a phrase divides the arena in one way, and {str(place)!r} does not fit {bins} bins"
                raise LanguageError(message, self.phrase, _span(place))
            bins = of
        return bins or 3

    def _build(self, node: Tree, negate: bool) -> Clauses:
        """The node's clauses, or its negation's; negations are pushed inwards, so that each is of one condition."""
        kind, children = node.data, cast(list[Tree], node.children)
        match kind:
            case "negated" if children[0].data == "repeated":
                return self._placed(children[0].children[0], True, negate)
            case "negated":
                return self._build(children[0], not negate)
            case "placed":
                self.subject, place = children
                denied = place.data == "negated"
                return self._placed(place.children[0] if denied else place, denied, negate)
            case "repeated":
                return self._placed(children[0], False, negate)
        return self._combine((kind == "both") != negate, [self._build(child, negate) for child in children])

    def _placed(self, place: Any, denied: bool, negate: bool) -> Clauses:
        """The last named subject in a place, or each of its sprites elsewhere; or the negation of that."""
        if self.subject is None:
            message = f"which sprite goes {str(place.children[0])!r}? Name it first"
            raise LanguageError(message, self.phrase, _span(place.children[0]))
        allowed = {axis: sum(1 << b for b in bins) for axis, bins in self._place(place.children).items()}
        condition = self.packing.denial if denied != negate else self.packing.conjunction
        parts = [
            condition({self.index[f"{sprite}_{axis}"]: mask for axis, mask in allowed.items()})
            for sprite in self.subject.children
        ]
        return self._combine((self.subject.data != "either_of") != negate, parts)

    def _place(self, words: list[Token]) -> dict[str, set[int]]:
        """The bins that a run of places allows on each axis. Beside a word of its own axis, centre or middle means
        the other axis.
        """
        meant: list[tuple[Token, str, set[int]]] = []
        for word in sorted(words, key=lambda w: w in ("centre", "middle")):  # stable: the certain words come first
            grid = _GRID.fullmatch(word)
            if grid:
                bins = {int(b[:9]) - 1 for b in grid[2].replace(",", " ").split()}
                if not bins <= set(range(self.bins)):
                    message = f"{str(word)!r} names a bin outside 1 to {self.bins}"
                    raise LanguageError(message, self.phrase, _span(word))
                meant.append((word, grid[1], bins))
            elif word != "anywhere":
                axis = _AXES[word]
                if word in ("centre", "middle") and any(other == axis for _, other, _ in meant):
                    axis = "y" if axis == "x" else "x"
                bins = {1} if word in ("centre", "middle") else {THIRDS[axis].index(word)}
                meant.append((word, axis, bins))
        allowed: dict[str, set[int]] = {}
        for word, axis, bins in meant:
            earlier = allowed.setdefault(axis, bins)
            allowed[axis] = earlier & bins
            if not allowed[axis]:
                others = [w for w, a, b in meant if a == axis and w is not word]
                other = next((w for w, a, b in meant if a == axis and not b & bins), " ".join(others))
                message = f"this goal contradicts itself: nothing is {str(other)!r} and {str(word)!r} at once"
                raise LanguageError(message, self.phrase, _span(word))
        return allowed

    def _combine(self, conjunction: bool, parts: list[Clauses]) -> Clauses:
        if not conjunction:
            return self.packing.either(clause for part in parts for clause in part)
        return reduce(self._both, parts)

    def _both(self, first: Clauses, second: Clauses) -> Clauses:
        both = self.packing.both(first, second)
        if first and second and not both:
            masks = zip(*(self.packing.sorted(clauses)[0] for clauses in (first, second)), strict=True)
            name, wishes = next(found for found in zip(self.coordinates, masks, strict=True) if not and_(*found[1]))
            sprite, _, axis = name.rpartition("_")
            described = " and ".join(describe(axis, members(wish), self.bins) for wish in wishes)
            self.contradiction = f"the {sprite} cannot be {described} at once"
        return both


def _span(word: Token) -> tuple[int, int]:
    return word.start_pos or 0, word.end_pos or 0


def _width(text: str) -> int:
    """Columns on a terminal: wide characters take two, combining marks none."""
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in text)
    return len(text) + wide - sum(unicodedata.combining(c) > 0 for c in text)
