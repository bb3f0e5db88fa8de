"""What the words of a condition mean for a thing: which of its features, and which region of it."""

import re
from fractions import Fraction
from typing import NamedTuple

from lark import Token, Tree

from cumulant.goals.errors import LanguageError, span_of
from cumulant.goals.feature import WORDS, Feature
from cumulant.goals.regions import FINEST, MAX_BINS, Region, fraction_at, range_of, spoken, value_at
from cumulant.goals.vocabulary import Vocabulary

_NUMBER = re.compile(r"([-+−]?)([\d.]+)\s*(.*)", re.DOTALL)
_LONGEST = 40  # characters of a number
_MIDDLES = ("centre", "middle")


class Said(NamedTuple):
    """One value as it was said: "left", "temperature warm", "x 2,3/7", "above 21 °C"."""

    name: Token | None
    value: list[Token]  # a word, a grid, or a bound with its numbers

    @property
    def span(self) -> tuple[int, int]:
        """Where in the phrase it stands."""
        return span_of(*([self.name] if self.name else []), *self.value)


class Places:
    """Reads conditions in a world; a phrase that does not fit it is refused with what would."""

    def __init__(self, phrase: str, vocabulary: Vocabulary):
        self.phrase, self.vocabulary = phrase, vocabulary

    def said(self, where: Tree) -> list[Said]:
        """The values of a run, each with its feature's name, if that is spoken."""
        values = where.children if where.data == "where" else [where]
        words = [[child for child in value.children if isinstance(child, Token)] for value in values]
        named = [each[0].type == "NAME" for each in words]
        return [
            Said(each[0] if name else None, each[1:] if name else each) for each, name in zip(words, named, strict=True)
        ]

    def regions(self, thing: str, values: list[Said], spoken_of: str) -> dict[int, Region]:
        """The region of each feature of a thing that a run of values allows. `spoken_of` is the name last said of it.

        Beside a word of its own axis, centre or middle means the other axis.
        """
        meant: list[tuple[Said, int, Region]] = []
        certain_first = sorted(values, key=lambda said: said.name is None and said.value[0] in _MIDDLES)
        for said in certain_first:
            i = self._feature(thing, said, spoken_of, {i for _, i, _ in meant})
            if said.value[0].type != "ANYWHERE":
                meant.append((said, i, self._region(i, said)))
        allowed: dict[int, Region] = {}
        for said, i, region in meant:
            allowed[i] = allowed[i] & region if i in allowed else region
            if not allowed[i].mask:
                others = [(other, own) for other, j, own in meant if j == i and other is not said]
                other = next((self._quoted(o) for o, own in others if not (own & region).mask), "")
                other = other or " ".join(self._quoted(o) for o, _ in others)
                raise self._error(
                    f"this goal contradicts itself: nothing is {other!r} and {self._quoted(said)!r} at once", said
                )
        return allowed

    def _feature(self, thing: str, said: Said, spoken_of: str, taken: set[int]) -> int:
        """The coordinate that a value is about."""
        own, word = self.vocabulary.things[thing], said.value[0]
        if said.name is not None:
            if said.name in own:
                return own[said.name]
            raise self._error(f"{thing} has no {said.name}: {self.vocabulary.has(own.values())}", said)
        if word.type == "ANYWHERE":
            return next(iter(own.values()))
        fitting = [i for i in own.values() if word.type != "WORD" or self._of(word, i) is not None]
        if self._crossed(own) and word in _MIDDLES and set(fitting) <= {own["x"], own["y"]}:
            (axis,) = fitting
            return axis if axis not in taken else own["x"] + own["y"] - axis
        if len(fitting) > 1 and spoken_of in own and own[spoken_of] in fitting:
            return own[spoken_of]
        if len(fitting) == 1:
            return fitting[0]
        if not fitting:
            raise self._error(f"{self._quoted(said)!r} does not fit: {self.vocabulary.has(own.values())}", said)
        quoted = self._quoted(said)
        ways = " or ".join(f"'{thing} {self.vocabulary.features[i].name} {quoted}'" for i in fitting)
        raise self._error(f"{quoted!r} may be of several features: say {ways}", said)

    def _crossed(self, own: dict[str, int]) -> bool:
        """Whether a thing has an x and a y with the words that these have everywhere."""
        return all(axis in own and self.vocabulary.features[own[axis]].regions == WORDS[axis] for axis in "xy")

    def _of(self, word: Token, i: int) -> int | None:
        """Which region of a feature a word is."""
        return self.vocabulary.words[i].get(word)

    def _region(self, i: int, said: Said) -> Region:
        feature, first, *numbers = self.vocabulary.features[i], *said.value
        if first.type == "WORD":
            region = self._of(first, i)
            if region is None and first in _MIDDLES and feature.regions in WORDS.values():
                region = 1
            if region is None:
                raise self._error(f"{str(first)!r} does not fit: {self.vocabulary.has([i])}", said)
            return Region(1 << region, len(feature.regions))
        if first.type == "GRID":
            return self._parts(first, said)
        if first.type == "BOUND":
            cut = self._cut(feature, numbers[0], inside=True)
            below = first in ("below", "at_most")
            return Region.between(Fraction(0), cut) if below else Region.between(cut, Fraction(1))
        low, high = (self._cut(feature, number, inside=False) for number in numbers)
        if low >= high:
            raise self._error(f"nothing lies {self._quoted(said)!r}: say the smaller number first", said)
        return Region.between(low, high)

    def _parts(self, grid: Token, said: Said) -> Region:
        chosen, _, parts = grid.partition("/")
        of = int(parts.strip()[:9])
        if not 1 <= of <= MAX_BINS:
            raise self._error(f"a feature is cut into 1 to {MAX_BINS:,} parts", said)
        numbers = {int(b.strip()[:9]) for b in chosen.split(",")}
        if not (min(numbers) >= 1 and max(numbers) <= of):
            raise self._error(f"{self._quoted(said)!r} names a part outside 1 to {of}", said)
        return Region(sum(1 << b - 1 for b in numbers), of)

    def _cut(self, feature: Feature, number: Token, inside: bool) -> Fraction:
        """The fraction of a feature's range at which a number cuts it; refused if nothing is told apart there."""
        read = _NUMBER.fullmatch(number)
        assert read is not None  # as the vocabulary's pattern has it
        sign, digits, unit = read.groups()
        if len(digits) > _LONGEST:
            raise self._error("nobody means a number of so many digits", number)
        if unit and unit.lower() != feature.unit.lower():
            known = f"is in {feature.unit}" if feature.unit else "has no unit"
            raise self._error(f"{feature.name} {known}: {unit!r} does not fit", number)
        value = Fraction(digits) * (-1 if sign in ("-", "−") else 1)
        fraction, (low, high) = fraction_at(feature, value), range_of(feature)
        if not 0 <= fraction <= 1 or (inside and fraction in (0, 1)):
            ends = f"{spoken(low)} and {spoken(high, feature.unit)}"
            raise self._error(f"{feature.name} lies between {ends}: {str(number)!r} cuts off nothing, or all", number)
        if fraction.denominator > FINEST:
            nearest = min(max(round(fraction * FINEST), inside), FINEST - inside)
            step = spoken((high - low) / FINEST, feature.unit)
            near = spoken(value_at(feature, Fraction(nearest, FINEST)))
            raise self._error(f"{feature.name} is told apart in steps of {step}: try {near}", number)
        return fraction

    def _quoted(self, said: Said) -> str:
        return " ".join(self.phrase[slice(*said.span)].lower().split())

    def _error(self, message: str, where: Said | Token) -> LanguageError:
        span = span_of(where) if isinstance(where, Token) else where.span
        return LanguageError(message, self.phrase, span)
