"""Goals to begin with, in a world's own words."""

from collections.abc import Iterator
from fractions import Fraction

from cumulant.goals.errors import LanguageError
from cumulant.goals.feature import Feature, described
from cumulant.goals.language import parse_plan
from cumulant.goals.phrases import say
from cumulant.goals.regions import Region, bounds

_OF_SPRITES = (
    "square top left and circle right",
    "get the circle to the middle",
    "agent left or square bottom",
    "not (square left or circle top)",
    "keep square left then agent right without agent middle centre",
)


def examples_for(names: tuple[str | Feature, ...]) -> list[str]:
    """Phrases that mean something in a world with these features, simple ones and one of every kind.

    >>> from cumulant.worlds.room import Room
    >>> examples_for(Room.feature_names)[:3]
    ['lamp on and temperature warm', 'blind shut', 'temperature above 20 °C']
    """
    if all(_means_something(phrase, names) for phrase in _OF_SPRITES):
        return list(_OF_SPRITES)
    made = dict.fromkeys(_made(described(names)))
    return [phrase for phrase in made if _means_something(phrase, names)]


def _made(features: tuple[Feature, ...]) -> Iterator[str]:
    number = len(features)

    def so(i: int, region: int) -> str:
        """A feature in one of its regions, -1 being its highest."""
        parts = len(features[i % number].regions)
        said = say(features, i % number, Region(1 << region % parts, parts))
        return f"{said.thing} {said.words}"

    yield f"{so(1, -1)} and {so(0, -1)}" if number > 1 else so(0, -1)
    yield so(2, 0)
    for feature in features:
        if feature.unit:
            yield f"{feature.of} {feature.name} {bounds(feature, Region.between(Fraction(1, 2), Fraction(1)))}".strip()
            break
    yield f"{so(0, 0)} or {so(1, 0)}" if number > 1 else f"not {so(0, 0)}"
    if number > 2:
        yield f"keep {so(1, -1)} then {so(2, -1)} without {so(0, 0)}"
    else:
        yield f"{so(0, 0)} then {so(number - 1, -1)}"


def _means_something(phrase: str, names: tuple[str | Feature, ...]) -> bool:
    try:
        parse_plan(phrase, names)
    except LanguageError:
        return False
    return True
