"""What a phrase may say in a world: its things, their features' names, the words of their regions, and its units."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from cumulant.goals.colours import names_of_colour
from cumulant.goals.everyday import everyday_words, is_plane
from cumulant.goals.feature import OTHER_WORDS, WORDS, Feature

LOGIC = {"and": "_AND", "or": "_OR", "not": "_NOT", "(": "_OPEN", ")": "_CLOSE"}
PLANNING = {"then": "_THEN", "keep": "_KEEP", "without": "_WITHOUT"}  # "and then" is the same as "then", and so on
BOUNDS = {"above": "BOUND", "below": "BOUND", "at_least": "BOUND", "at_most": "BOUND", "between": "BETWEEN"}
RESERVED = LOGIC | PLANNING | BOUNDS | {"anywhere": "ANYWHERE", ",": "COMMA"}
ELSEWHERE = frozenset({*WORDS["x"], *WORDS["y"], *OTHER_WORDS})  # words that most worlds have, and this one may not
_SYNONYMS = {"center": "centre", "upper": "top", "lower": "bottom"}

_LIST = r"\d++(?:\s*+,\s*+\d++)"  # nothing here tries a text twice, so that a long one is read in no time
_GRID = _LIST + r"*+\s*+/\s*+\d++(?!\w)"
_NUMBER = r"[-+−]?\d++(?:\.\d++)?{unit}(?!\w|\s*+,\s*+\d)"
_WORD = rf"{_LIST}++|[^\W\d_]++(?={_GRID})|[(),]|[^\s_(),.;:!?\"“”«»-]++"
_COLOUR = re.compile("#[0-9a-fA-F]{6}")


class Unspeakable(ValueError):
    """A feature that no phrase could name; the message is one clear line that says how to mend it."""


@dataclass(frozen=True)
class Vocabulary:
    """All that can be said in a world."""

    features: tuple[Feature, ...]
    things: dict[str, dict[str, int]]  # thing → its features' names, in small letters → coordinates
    kinds: dict[str, tuple[str, str]]  # what can be said → THING, NAME, WORD or one of EVERYDAY, and which
    words: tuple[dict[str, int], ...]  # of each feature: word → region, from low to high
    pattern: re.Pattern[str]  # of anything that stands in a phrase
    longest: int  # words in a name
    plane: bool  # whether all things have an x and a y, and nothing else
    colours: dict[str, tuple[str, ...]]  # of things, if they are known: what each may be called

    def with_name(self, name: str) -> list[str]:
        """The things that have a feature of this name."""
        return [thing for thing, own in self.things.items() if name in own]

    def about(self, kind: str, said: str) -> list[int]:
        """The coordinates that a thing, or a feature's name, may be about."""
        if kind == "THING":
            return list(self.things[said].values())
        return [own[said] for own in self.things.values() if said in own]

    def has(self, coordinates: Iterable[int]) -> str:
        """What would fit: "drone has height: low, middle, high"."""
        told: dict[str, list[str]] = {}
        for feature in (self.features[i] for i in coordinates):
            regions = ", ".join(feature.regions)
            told.setdefault(feature.of or feature.name, []).append(
                f"{feature.name}: {regions}" if feature.of else regions
            )
        return "; ".join(f"{thing} has {'; '.join(each)}" for thing, each in told.items())


@lru_cache(maxsize=64)
def vocabulary_of(features: tuple[Feature, ...], colours: tuple[tuple[str, str], ...] = ()) -> Vocabulary:
    """The vocabulary of a world with these features. Unspeakable where a phrase could not name one, or not it alone.

    `colours` are those of its things, in hex.
    """
    if not features:
        raise Unspeakable("no phrase means anything in a world without features")
    pattern = _pattern(features)
    things: dict[str, dict[str, int]] = {}
    kinds: dict[str, tuple[str, str]] = {}
    for i, feature in enumerate(features):
        thing, name = feature.of or feature.name, feature.name.lower() if feature.of else ""
        _claim(kinds, pattern, "THING", thing, thing)
        if feature.of:
            _claim(kinds, pattern, "NAME", feature.name, name)
        for word in feature.regions:
            _claim(kinds, pattern, "WORD", word, word.lower())
        _check_regions(feature)
        own = things.setdefault(thing, {})
        if name in own or (own and "" in {name, *own}):
            raise Unspeakable(
                f"no phrase can tell {feature.full_name!r} from the other features of {thing!r}: "
                "give each feature a name of its own, and the same `of`"
            )
        own[name] = i
    _check_names_of_several_words(kinds)
    for said, meant in _SYNONYMS.items():
        if meant in kinds:
            kinds.setdefault(said, kinds[meant])
    for thing, colour in colours:
        if not (isinstance(colour, str) and _COLOUR.fullmatch(colour)):
            raise Unspeakable(f"the colour of {thing} must be hex, as #56b4e9, but is {colour!r}")
    called = {thing: names_of_colour(colour) for thing, colour in colours if thing in things}
    if plane := is_plane(features):
        kinds = everyday_words(called) | kinds  # the world's own come first
    words = tuple({word.lower(): b for b, word in enumerate(feature.regions)} for feature in features)
    longest = max(len(said.split("_")) for said in (*kinds, *RESERVED))
    return Vocabulary(features, things, kinds, words, pattern, longest, plane, called)


def _pattern(features: tuple[Feature, ...]) -> re.Pattern[str]:
    units = sorted({feature.unit for feature in features if feature.unit}, key=len, reverse=True)
    reserved = next((unit for unit in units if unit.lower() in RESERVED), None)
    if reserved:
        raise Unspeakable(f"no phrase can say the unit {reserved!r}, which means something else: call it otherwise")
    number = _NUMBER.format(unit=rf"(?:\s*(?:{'|'.join(map(re.escape, units))}))?" if units else "")
    return re.compile(rf"(?P<GRID>{_GRID})|(?P<NUMBER>{number})|(?P<word>{_WORD})", re.IGNORECASE)


def _claim(kinds: dict[str, tuple[str, str]], pattern: re.Pattern[str], kind: str, given: str, meant: str) -> None:
    """Take a word into the vocabulary; whatever is written with `_` may be spoken as several."""
    parts = [part for part in given.lower().split("_") if part]
    said = "_".join(parts)
    if not all(_is_word(pattern, part) or (i and part.isdecimal()) for i, part in enumerate(parts)) or not parts:
        raise Unspeakable(f"no phrase can name {given!r}: call it by a word, or by several with `_` between them")
    if said in RESERVED or {*LOGIC, *PLANNING} & {*parts}:
        raise Unspeakable(f"no phrase can name {given!r}, which means something else in a phrase: call it otherwise")
    if kinds.setdefault(said, (kind, meant)) != (kind, meant):
        other = {"THING": "a thing", "NAME": "a feature's name", "WORD": "a region's word"}[kinds[said][0]]
        raise Unspeakable(f"no phrase can tell {given!r} from {other} that is called the same: rename one of them")


def _is_word(pattern: re.Pattern[str], text: str) -> bool:
    match = pattern.fullmatch(text)
    return match is not None and match.lastgroup == "word"


def _check_regions(feature: Feature) -> None:
    words = [word.lower() for word in feature.regions]
    if len(set(words)) < len(words):
        raise Unspeakable(
            f"no phrase can tell the regions of {feature.full_name!r} apart, {', '.join(words)}: give each its own word"
        )


def _check_names_of_several_words(kinds: dict[str, tuple[str, str]]) -> None:
    """Refuse "red_square" beside a thing "red" that has a "square": what is spoken must be read in one way."""
    for said in kinds:
        parts = said.split("_")
        for cut in range(1, len(parts)):
            first, rest = "_".join(parts[:cut]), "_".join(parts[cut:])
            after = [other for other in kinds if other == rest or other.startswith(f"{rest}_")]
            if first in kinds and any(kinds[other][0] != "THING" for other in after):
                raise Unspeakable(f"no phrase can tell {said!r} from {first!r} with {after[0]!r}: rename one of them")
