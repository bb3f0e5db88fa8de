"""Tasks → words: the canonical phrase, which parses back to the same task in the same world."""

from collections.abc import Sequence
from math import lcm
from typing import NamedTuple

from cumulant.goals.clauses import Clause
from cumulant.goals.feature import WORDS, Feature
from cumulant.goals.regions import Region, bounds, members

THIRDS = 3  # what a phrase speaks of that names no region at all
_SHOWN = 80  # characters of a phrase, where there is but one line for it


class Saying(NamedTuple):
    """How a condition is said of its thing: "square", "", "not left"; "room", "temperature", "above 21 °C"."""

    thing: str
    name: str  # of the feature; empty where the value alone tells
    value: str
    parts: int  # into which the value cuts the range

    @property
    def words(self) -> str:
        """All but the thing."""
        return f"{self.name} {self.value}".strip()


def shortened(phrase: str) -> str:
    """A phrase as one line has room for it.

    >>> shortened("square left or " * 99)[-18:]
    'square left or sq…'
    """
    return phrase if len(phrase) <= _SHOWN else f"{phrase[: _SHOWN - 1]}…"


def canonical(features: tuple[Feature, ...], goals: Sequence[Sequence[Clause]], bins: int) -> list[str]:
    """Phrases of several goals on one grid, which are read as one: together they tell how fine the grid is.

    Each condition is said as simply as it can be; where that tells less than the whole grid, in bins.
    """
    everything = (1 << bins) - 1
    conditions = [
        [[(i, mask) for i, mask in enumerate(clause) if mask != everything] for clause in clauses] for clauses in goals
    ]
    told = {
        condition: say(features, condition[0], Region(condition[1], bins))
        for clauses in conditions
        for clause in clauses
        for condition in clause
    }
    whole = lcm(*(saying.parts for saying in told.values())) == bins if told else bins == THIRDS
    if not whole:
        told = {(i, mask): _in_bins(features[i], Region(mask, bins)) for i, mask in told}
    nothing = f"{_thing(features[0])} anywhere"
    if not whole:
        first = _in_bins(features[0], Region(everything, bins))
        nothing = f"{first.thing} {first.words}"

    def phrase(clauses: list[list[tuple[int, int]]]) -> str:
        said = [_conjunction([(features[i], told[i, mask]) for i, mask in clause]) or nothing for clause in clauses]
        return " or ".join(said) or "impossible"

    return [phrase(clauses) for clauses in conditions]


def say(features: tuple[Feature, ...], coordinate: int, region: Region) -> Saying:
    """A condition in its feature's words, in numbers of its unit, or else in as few equal parts as can tell it."""
    feature, regions = features[coordinate], features[coordinate].regions
    thing, name = _thing(feature), feature.name if feature.of else ""
    word = _one_word(regions, region)
    if word:
        siblings = [other for other in features if _thing(other) == thing]
        clear = sum(word.removeprefix("not ") in other.regions for other in siblings) == 1
        bare = len(siblings) == 1 or (feature.name in WORDS and clear)
        return Saying(thing, "" if bare else name, word, len(regions))
    numbers = bounds(feature, region) if feature.unit or (feature.low, feature.high) != (0, 1) else ""
    if numbers:
        return Saying(thing, name, numbers, region.coarsest().of)
    return _in_bins(feature, region.coarsest())


def _one_word(regions: tuple[str, ...], region: Region) -> str:
    """A word for a region: "left", "not left", "anywhere"; empty if there is none."""
    if region.of % len(regions) or region.on(len(regions)).on(region.of) != region:
        return ""
    allowed = [regions[b] for b in members(region.on(len(regions)).mask)]
    if len(allowed) == len(regions):
        return "anywhere"
    if len(allowed) == 1:
        return allowed[0]
    missing = [word for word in regions if word not in allowed]
    return f"not {missing[0]}" if len(missing) == 1 else ""


def _in_bins(feature: Feature, region: Region) -> Saying:
    bins = ",".join(str(b + 1) for b in members(region.mask))
    return Saying(_thing(feature), feature.name if feature.of else "", f"{bins}/{region.of}", region.of)


def _thing(feature: Feature) -> str:
    return feature.of or feature.name


def _conjunction(clause: list[tuple[Feature, Saying]]) -> str:
    """What is so, each thing's place in one run, as in "top left"; then what is not."""
    places: dict[str, list[str]] = {}
    denials = []
    for feature, saying in clause:
        if saying.value.startswith("not "):
            denials.append(f"{saying.thing} {saying.words}")
        elif feature.name in WORDS and feature.of:
            places.setdefault(saying.thing, []).insert(0, saying.words)  # y before x
        else:
            places[f"{saying.thing} {saying.words}"] = []
    return " and ".join([" ".join([thing, *words]) for thing, words in places.items()] + denials)
