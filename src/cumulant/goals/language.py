"""Phrase → task or plan: a small English for goals, such as "get the square to the top left, then the circle right"."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce
from math import lcm
from operator import or_
from types import MappingProxyType
from typing import NamedTuple, cast

from lark import Token, Tree

from cumulant.goals.clauses import Clauses, TooComplex, packing
from cumulant.goals.errors import LanguageError, span_of
from cumulant.goals.feature import Feature, described
from cumulant.goals.grammar import tree_of
from cumulant.goals.phrases import THIRDS
from cumulant.goals.places import Places, Said
from cumulant.goals.plans import Contradiction, Plan, Stage
from cumulant.goals.regions import MAX_BINS, Cells, Region, members
from cumulant.goals.tasks import Task, clash
from cumulant.goals.vocabulary import PLANNING, Unspeakable, vocabulary_of
from cumulant.goals.words import words_of

SPRITEWORLD = tuple(f"{sprite}_{axis}" for sprite in ("agent", "square", "circle") for axis in "xy")
_UNKNOWN: Mapping[str, str] = MappingProxyType({})  # colours


def parse(phrase: str, features: Iterable[str | Feature] = SPRITEWORLD, colours: Mapping[str, str] = _UNKNOWN) -> Task:
    """What the phrase asks of a world with these features, a world's `feature_names`.

    `colours` are those of its things, in hex, where a phrase may name them: "the blue square". Raises LanguageError,
    which says what is wrong, where, and what to try.

    >>> import cumulant
    >>> print(cumulant.parse("get the square to the top left, and the circle not to the right"))
    square top left and circle not right
    >>> room = cumulant.Feature("temperature", of="room", low=10, high=30, unit="°C", words=("cold", "mild", "warm"))
    >>> lamp = cumulant.Feature("state", of="lamp", words=("off", "on"))
    >>> print(cumulant.parse("lamp on, temperature between 20 and 22", (room, lamp)))
    room temperature between 20 °C and 22 °C and lamp on
    """
    read = _Meaning(phrase, tuple(features), colours)
    return read.task(read.tree)


def parse_plan(
    phrase: str, features: Iterable[str | Feature] = SPRITEWORLD, colours: Mapping[str, str] = _UNKNOWN
) -> Plan:
    """The plan that the phrase describes; of a plain goal, which `parse` reads too, a plan of one stage.

    Stages are told apart by `then`. `without` says what must not be entered on the way to its stage; what `keep` names
    is reached with its stage, and must hold from then on. Raises LanguageError, as `parse` does.

    >>> import cumulant
    >>> print(cumulant.parse_plan("keep the square left, and then the agent top without agent right"))
    keep square left then agent top without agent right
    >>> cumulant.parse_plan("square left") == cumulant.Plan.of(cumulant.parse("square left"))
    True
    """
    read = _Meaning(phrase, tuple(features), colours)
    return read.plan(read.tree)


class _Condition(NamedTuple):
    """A subject's things, each with the regions where it has to be; or each elsewhere."""

    every: bool  # of the things, or any
    denied: bool
    allowed: list[dict[int, Region]]  # of each thing: coordinate → region


class _Meaning:
    """Turns what was parsed into a task or a plan, from left to right."""

    def __init__(self, phrase: str, features: tuple[str | Feature, ...], colours: Mapping[str, str]):
        self.phrase, self.coordinates = phrase, features
        try:
            self.vocabulary = vocabulary_of(described(features), tuple(colours.items()))
        except Unspeakable as error:
            raise LanguageError(str(error)) from None
        words = words_of(phrase, self.vocabulary)
        self.tree = tree_of(words, phrase, self.vocabulary)
        self.planning = next((word for word in words if word.type in PLANNING.values()), None)
        self.places = Places(phrase, self.vocabulary)
        self.subject: tuple[str, list[str]] = ("", [])  # its kind and its things
        self.spoken_of = ""  # the name of a feature of theirs
        self.conditions = {id(leaf): self._condition(leaf) for leaf in _leaves(self.tree)}
        self.bins = self._grid()
        self.cells = Cells.of(len(features), self._regions())
        self.packing = packing(len(features), self.cells.number)
        self.contradiction: tuple[Clauses, Clauses] | None = None  # the last two parts that exclude each other

    def _condition(self, leaf: Tree) -> _Condition:
        """What a condition means, whose subject may be the one before."""
        *subject, place = cast(list[Tree], leaf.children)
        denied = place.data in ("negated", "denied")
        values = self.places.said(place.children[0] if place.data == "negated" else place)
        if subject:
            self.subject, self.spoken_of = (subject[0].data, [str(thing) for thing in subject[0].children]), ""
        else:
            self._repeat(values[0])
        allowed = [self.places.regions(thing, values, self.spoken_of) for thing in self.subject[1]]
        self.spoken_of = next((str(said.name) for said in reversed(values) if said.name), self.spoken_of)
        return _Condition(self.subject[0] != "either_of", denied, allowed)

    def _repeat(self, first: Said) -> None:
        """The subject of a place that names none: the last one, or whatever alone has a feature of that name."""
        own = self.vocabulary.things
        if first.name and not (self.subject[1] and all(first.name in own[thing] for thing in self.subject[1])):
            having = self.vocabulary.with_name(first.name)
            if len(having) > 1:
                ways = " or ".join(f"'{thing} {first.name}'" for thing in having)
                raise LanguageError(
                    f"{str(first.name)!r} may be of several things: say {ways}", self.phrase, first.span
                )
            self.subject, self.spoken_of = ("subject", having), ""
        if not self.subject[1]:
            said = self.phrase[slice(*first.span)]
            message = f"which thing is {said!r}? Name it first: {', '.join(own)}"
            raise LanguageError(message, self.phrase, first.span)

    def _regions(self) -> Iterator[tuple[int, Region]]:
        """All that the phrase speaks of, each with its coordinate."""
        return (pair for found in self.conditions.values() for each in found.allowed for pair in each.items())

    def _grid(self) -> int:
        """As many bins as tell all regions that the phrase speaks of."""
        parts = {region.of for _, region in self._regions()}
        bins = lcm(*parts) if parts else THIRDS
        if bins > MAX_BINS:
            cuts = ", ".join(map(str, sorted(parts)))
            raise LanguageError(
                f"this phrase cuts features into {cuts} parts, which together takes {bins:,}, "
                f"and at most {MAX_BINS:,} are told apart: use fewer different ones"
            )
        return bins

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
            why = (
                clash(*map(self._task, self.contradiction)) if self.contradiction else "no state can satisfy this goal"
            )
            raise LanguageError(f"this goal contradicts itself: {why}")
        return self._task(clauses)

    def _task(self, clauses: Clauses) -> Task:
        cells = self.cells.on(self.bins)
        masks = [
            tuple(sum(own[b] for b in members(mask)) for own, mask in zip(cells, clause, strict=True))
            for clause in self.packing.sorted(clauses)
        ]
        return Task(self.coordinates, tuple(masks), self.bins)

    def _build(self, node: Tree, negate: bool) -> Clauses:
        """The node's clauses, or its negation's; negations are pushed inwards, so that each is of one condition."""
        kind, children = node.data, cast(list[Tree], node.children)
        match kind:
            case "negated" if children[0].data == "repeated":
                return self._placed(self.conditions[id(children[0])], True, negate)
            case "negated":
                return self._build(children[0], not negate)
            case "placed" | "repeated":
                return self._placed(self.conditions[id(node)], False, negate)
        return self._combine((kind == "both") != negate, [self._build(child, negate) for child in children])

    def _placed(self, found: _Condition, otherwise: bool, negate: bool) -> Clauses:
        """A subject in its place, or each of its things elsewhere; or the negation of that."""
        elsewhere = found.denied != otherwise
        condition = self.packing.denial if elsewhere != negate else self.packing.conjunction
        parts = [condition({i: self.cells.mask(i, region) for i, region in each.items()}) for each in found.allowed]
        return self._combine(found.every != negate, parts)

    def _combine(self, conjunction: bool, parts: list[Clauses]) -> Clauses:
        if not conjunction:
            return self.packing.either(clause for part in parts for clause in part)
        return reduce(self._both, parts)

    def _both(self, first: Clauses, second: Clauses) -> Clauses:
        both = self.packing.both(first, second)
        if first and second and not both:
            self.contradiction = first, second
        return both


def _leaves(node: Tree) -> Iterator[Tree]:
    """The conditions of a phrase, from left to right."""
    if node.data in ("placed", "repeated"):
        yield node
    else:
        for child in node.children:
            yield from _leaves(cast(Tree, child))


def _extent(node: Tree) -> tuple[int, int]:
    """From the first word of a part of the phrase to its last."""
    spans = [span_of(word) for word in node.scan_values(lambda leaf: isinstance(leaf, Token))]
    return min(start for start, _ in spans), max(end for _, end in spans)
