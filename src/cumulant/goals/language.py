"""Phrase → task or plan: a small English for goals, such as "get the square to the top left, then the circle right"."""

from collections.abc import Iterator, Sequence
from functools import reduce
from operator import or_
from typing import Any, cast

from lark import Lark, Token, Tree, UnexpectedToken
from lark.lexer import Lexer

from cumulant.goals.clauses import Clauses, TooComplex, packing
from cumulant.goals.plans import Contradiction, Plan, Stage
from cumulant.goals.tasks import MAX_BINS, THIRDS, Task, clash
from cumulant.goals.words import AXES, GRID, PLANNING, LanguageError, span_of, words_of

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


def parse(phrase: str, sprites: Sequence[str] = ("agent", "square", "circle")) -> Task:
    """What the phrase asks of these sprites. Raises LanguageError, which says what is wrong, where, and what to try.

    >>> import cumulant
    >>> print(cumulant.parse("get the square to the top left, and the circle not to the right"))
    square top left and circle not right
    """
    read = _Meaning(phrase, sprites, words_of(phrase, sprites))
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
    read = _Meaning(phrase, sprites, words_of(phrase, sprites))
    return read.plan(read.tree)


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
    return LanguageError(f"did not expect {str(error.token)!r} here: {hint}", phrase, span_of(error.token))


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
        self.planning = next((word for word in words if word.type[1:] in PLANNING.values()), None)
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
                    (child.data, self.task(child.children[0] if child.data in PLANNING else child))
                    for child in children
                ]
                reach = next((task for kind, task in tasks if kind not in PLANNING), None)
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
            raise LanguageError(message, self.phrase, span_of(cast(Token, self.planning)))
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
            grid = GRID.fullmatch(place)
            of = int(grid[3][:9]) if grid else 3
            if not 1 <= of <= MAX_BINS:
                raise LanguageError(f"a coordinate has 1 to {MAX_BINS} bins", self.phrase, span_of(place))
            if bins not in (0, of):
                message = f"a phrase divides the arena in one way, and {str(place)!r} does not fit {bins} bins"
                raise LanguageError(message, self.phrase, span_of(place))
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
            raise LanguageError(message, self.phrase, span_of(place.children[0]))
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
            grid = GRID.fullmatch(word)
            if grid:
                bins = {int(b[:9]) - 1 for b in grid[2].replace(",", " ").split()}
                if not bins <= set(range(self.bins)):
                    message = f"{str(word)!r} names a bin outside 1 to {self.bins}"
                    raise LanguageError(message, self.phrase, span_of(word))
                meant.append((word, grid[1], bins))
            elif word != "anywhere":
                axis = AXES[word]
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
                raise LanguageError(message, self.phrase, span_of(word))
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
    spans = [span_of(word) for word in node.scan_values(lambda leaf: isinstance(leaf, Token))]
    return min(start for start, _ in spans), max(end for _, end in spans)
