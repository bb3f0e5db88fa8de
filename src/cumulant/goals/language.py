"""Phrase → task or plan: a small English for goals, such as "get the square to the top left, then the circle right"."""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from functools import lru_cache, reduce
from itertools import islice
from operator import or_
from typing import Any, cast

from lark import Lark, Token, Tree, UnexpectedToken
from lark.lexer import Lexer

from cumulant.goals.clauses import MAX_CLAUSES, Clauses, TooComplex, packing
from cumulant.goals.plans import Contradiction, Plan, Stage
from cumulant.goals.tasks import MAX_BINS, THIRDS, Task, clash, describe

MAX_CHARACTERS = 2000  # that a person writes; a canonical phrase may be longer, and is read as well
MAX_DEPTH = 50
_LIKENESS = 0.7  # of a misspelt word and the one suggested, at least: a star is no square
FILLER = frozenset("get move put bring the a to at in into of on towards side corner position region first".split())
_LOGIC = {"and": "AND", "or": "OR", "not": "NOT", "(": "OPEN", ")": "CLOSE"}
_PLANNING = {"then": "THEN", "keep": "KEEP", "without": "WITHOUT"}  # "and then" is the same as "then", and so on
_RESERVED = _LOGIC | _PLANNING
_AXES = {word: axis for axis, words in THIRDS.items() for word in words}
_PLACES = frozenset(_AXES) | {"center", "anywhere"}
_WORD = re.compile(r"[xy]\s*\d+(?:\s*,\s*\d+)*\s*/\s*\d+(?!\w)|[()]|[^\s(),.;:!?\"-]+", re.IGNORECASE)
_NAME = re.compile(r"[^\s(),.;:!?\"-]+")
_GRID = re.compile(r"([xy])([\d,\s]+)/\s*(\d+)", re.IGNORECASE)

# A subject may be several sprites ("square and circle left"); a place without one repeats the last ("left or right").
# A `not` right before a place belongs to it and holds for every sprite of the subject: "square and circle not left" is
# neither. A `not` before a sprite or a parenthesis is of all that follows: "not (square and circle left)" is not both.
#
# A plan is stages with `then` between them. `without` and `keep` belong to the stage in which they stand; a `without`
# after parentheses belongs to every stage in them.
_GRAMMAR = """
    ?start: step | sequence
    sequence: step (_THEN step)+
    ?step: either | stage | several
    several: _OPEN (sequence | stage | several) _CLOSE without*
    stage: either (keep | without)+ | keep (keep | without)*
    keep: _KEEP either
    without: _WITHOUT either
    ?either: both (_OR both)*
    ?both: negation (_AND negation)*
    ?negation: condition | _NOT negation -> negated
    ?condition: subject place -> placed | where -> repeated | _OPEN either _CLOSE
    subject: SPRITE | SPRITE (_AND SPRITE)+ -> both_of | SPRITE (_OR SPRITE)+ -> either_of
    ?place: where | _NOT where -> negated
    where: WHERE+
    %declare _AND _OR _NOT _OPEN _CLOSE _THEN _KEEP _WITHOUT SPRITE WHERE
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
    read = _Meaning(phrase, sprites, _words(phrase, sprites))
    return read.task(read.tree)


def parse_plan(phrase: str, sprites: Sequence[str] = ("agent", "square", "circle")) -> Plan:
    """The plan that the phrase describes; of a plain goal, which `parse` reads too, a plan of one stage.

    Stages are told apart by `then`. `without` says what must not be entered on the way to its stage; what `keep` names
    is reached with its stage, and must hold from then on. Raises LanguageError, as `parse` does.

    >>> import cumulant
    >>> print(cumulant.parse_plan("keep the square left, and then the agent top without agent right"))
    keep square left then agent top without agent right
    >>> cumulant.parse_plan("square left") == cumulant.Plan.of(cumulant.parse("square left"))
    True
    """
    read = _Meaning(phrase, sprites, _words(phrase, sprites))
    return read.plan(read.tree)


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


def _words(phrase: str, sprites: Sequence[str]) -> list[Token]:
    """The words that carry meaning, at most as many as a canonical phrase may have or a person may write."""
    names, longest = _names(tuple(sprites)), _longest(tuple(sprites))
    if len(phrase) > longest:
        raise LanguageError(f"the phrase has {len(phrase):,} characters, and at most {longest:,} are read")
    limit = max(MAX_CHARACTERS, MAX_CLAUSES * (2 * len(names) * len("sprite not place and".split()) + len(_PLANNING)))
    words = list(islice(_recognised(phrase, names), limit + 1))
    if len(words) > limit:
        raise LanguageError(f"the phrase has more than {limit:,} words, which are all that is read")
    if not words:
        raise LanguageError(f"the phrase names no goal: try '{sprites[-1]} top left'")
    _refuse_depth(words, phrase)
    return [word for word, following in zip(words, [*words[1:], None], strict=True) if not _idle(word, following)]


def _idle(word: Token, following: Token | None) -> bool:
    """Whether a word adds nothing to the next: the `and` of "and then"."""
    return word.type == "_AND" and following is not None and following.type[1:] in _PLANNING.values()


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
        elif word in _PLACES or _GRID.fullmatch(word):
            kind, word = "WHERE", word.replace("center", "centre")
        else:
            raise _unknown(word, phrase, span, tuple(names.values()))
        yield Token(kind, word, start_pos=span[0], end_pos=span[1])


def _unknown(word: str, phrase: str, span: tuple[int, int], sprites: tuple[str, ...]) -> LanguageError:
    known = [*sprites, *_PLACES, "and", "or", "not", *_PLANNING]
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
    """Turns what was parsed into a task or a plan, from left to right."""

    def __init__(self, phrase: str, sprites: Sequence[str], words: list[Token]):
        self.phrase = phrase
        try:
            self.tree = cast(Tree, _PARSER.parse(words))  # our lexer takes words, not text
        except UnexpectedToken as error:
            raise _misplaced(error, words, phrase, sprites) from None
        self.planning = next((word for word in words if word.type[1:] in _PLANNING.values()), None)
        self.bins = self._grid([word for word in words if word.type == "WHERE" and word != "anywhere"])
        self.coordinates = tuple(f"{sprite}_{axis}" for sprite in sprites for axis in "xy")
        self.index = {name: i for i, name in enumerate(self.coordinates)}
        self.packing = packing(len(self.coordinates), self.bins)
        self.subject: Tree | None = None
        self.contradiction = "no state can satisfy this goal"

    def plan(self, meaning: Tree) -> Plan:
        """The whole phrase's plan."""
        parts = list(self._stages(meaning))
        try:
            return Plan(tuple(stage for stage, _ in parts))
        except TooComplex as error:
            raise LanguageError(str(error)) from None
        except Contradiction as error:
            raise LanguageError(f"this plan contradicts itself: {error}", self.phrase, parts[error.stage][1]) from None

    def _stages(self, node: Tree) -> Iterator[tuple[Stage, tuple[int, int]]]:
        """The stages of a part of the phrase, each with where it stands."""
        children = cast(list[Tree], node.children)
        match node.data:
            case "sequence":
                for child in children:
                    yield from self._stages(child)
            case "several":
                inner, *without = children
                stages = list(self._stages(inner))
                avoided = [self.task(child.children[0]) for child in without]
                yield from (
                    (self._stage(stage.reach, [stage.avoid, *avoided], [stage.keep]), at) for stage, at in stages
                )
            case "stage":
                tasks = [
                    (child.data, self.task(child.children[0] if child.data in _PLANNING else child))
                    for child in children
                ]
                reach = next((task for kind, task in tasks if kind not in _PLANNING), None)
                avoid, keep = ([task for kind, task in tasks if kind == word] for word in ("without", "keep"))
                yield self._stage(reach, avoid, keep), _extent(node)
            case _:
                yield Stage(self.task(node)), _extent(node)

    def _stage(self, reach: Task | None, avoid: Sequence[Task | None], keep: Sequence[Task | None]) -> Stage:
        """A stage that avoids any of several tasks and keeps all of several; without a `reach`, what it keeps."""
        avoided, kept = ([task for task in tasks if task is not None] for tasks in (avoid, keep))
        try:
            keeping = reduce(self._all_kept, kept) if kept else None
            return Stage(cast(Task, reach or keeping), reduce(or_, avoided) if avoided else None, keeping)
        except TooComplex as error:
            raise LanguageError(str(error)) from None

    def _all_kept(self, first: Task, second: Task) -> Task:
        if not (first & second).possible:
            raise LanguageError(f"this plan contradicts itself: {clash(first, second)}")
        return first & second

    def task(self, meaning: Tree) -> Task:
        """The task of a phrase, or of a part of one, that is a plain goal."""
        if meaning.data in ("sequence", "several", "stage"):
            message = "this phrase is a plan, where a plain goal is asked for"
            raise LanguageError(message, self.phrase, _span(cast(Token, self.planning)))
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
            tasks = (Task(self.coordinates, self.packing.sorted(clauses), self.bins) for clauses in (first, second))
            self.contradiction = clash(*tasks)
        return both


def _extent(node: Tree) -> tuple[int, int]:
    """From the first word of a part of the phrase to its last."""
    spans = [_span(word) for word in node.scan_values(lambda leaf: isinstance(leaf, Token))]
    return min(start for start, _ in spans), max(end for _, end in spans)


def _span(word: Token) -> tuple[int, int]:
    return word.start_pos or 0, word.end_pos or 0


def _width(text: str) -> int:
    """Columns on a terminal: wide characters take two, combining marks none."""
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in text)
    return len(text) + wide - sum(unicodedata.combining(c) > 0 for c in text)
