"""Words that people use of things in a room: their colours, its corners and walls, and how things lie to each other.

They mean something only in a plane, a world whose things all have an x and a y with the usual words, and nothing else;
and never where the world has a use of its own for them. Elsewhere they are words like any other.
"""

from collections.abc import Iterable, Mapping
from itertools import takewhile
from typing import TYPE_CHECKING

from lark import Token

from cumulant.goals.colours import COLOURS, SHADES, SYNONYMS
from cumulant.goals.errors import LanguageError, span_of
from cumulant.goals.feature import WORDS, Feature

if TYPE_CHECKING:
    from cumulant.goals.vocabulary import Vocabulary

_ROOMS = "room arena world screen frame picture image".split()
_EDGES = "edge edges wall walls border".split()
_CORNERS = ("corner", "corners")
_RELATIONS = (
    "near nearby next_to beside alongside close_to closer_to away_from far_from touching touch touches against "
    "adjacent inside within around onto over under underneath beneath behind in_front_of together overlapping apart "
    "where same same_place on_top_of"
).split()
_ONES = "one sprite object shape".split()
EVERYDAY = frozenset("COLOUR CORNER EDGE RELATION ROOM".split())  # kinds of words that `settled` settles
_ENDS = {axis: (words[0], words[-1]) for axis, words in WORDS.items()}
_ABOVE, _BELOW = (
    ("above", "over", "on_top_of", "on", "onto", "top"),
    ("below", "under", "underneath", "beneath", "bottom"),
)
_RUN = 4  # words in which a corner is named, at most
_OF = ("of", "from")  # "left of the circle" is no "left"
_ON = ("on", "in", "at", "to", "into", "towards", "of")


def is_plane(features: Iterable[Feature]) -> bool:
    """Whether all that there is are things with an x and a y, with the words that these have everywhere.

    >>> is_plane((Feature("x", of="square"), Feature("y", of="square"))), is_plane((Feature("x", of="square"),))
    (True, False)
    """
    axes: dict[str, list[str]] = {}
    for feature in features:
        if not feature.of or feature.regions != WORDS.get(feature.name):
            return False
        axes.setdefault(feature.of, []).append(feature.name)
    return all(sorted(own) == ["x", "y"] for own in axes.values())


def everyday_words(colours: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, str]]:
    """What is said in a plane beside its own words: word → kind, and what it means."""
    known = {word: ("EDGE", word) for word in _EDGES} | {word: ("ROOM", word) for word in _ROOMS}
    known |= {word: ("CORNER", word) for word in _CORNERS} | {word: ("RELATION", word) for word in _RELATIONS}
    if colours:
        for colour, meant in {**dict(zip(COLOURS, COLOURS, strict=True)), **SYNONYMS}.items():
            ways = [colour, *(f"{shade}_{colour}" for shade in SHADES)]
            known |= dict.fromkeys((*ways, *(f"{way}_{one}" for way in ways for one in _ONES)), ("COLOUR", meant))
    return known


def settled(words: list[Token], phrase: str, vocabulary: "Vocabulary") -> list[Token]:
    """The words with those of a room read as the language has them, or refused with what can be said instead."""
    kept: list[Token] = []
    for i, word in enumerate(words):
        match word.type:
            case "RELATION":
                raise related(word, kept, words[i + 1 :], phrase, vocabulary)
            case "ROOM":
                if [each.type for each in kept[-1:]] == ["WORD"] and kept[-1] in ("centre", "middle"):
                    kept += _whole_middle(kept)
            case "EDGE":
                if not kept or kept[-1].type != "WORD" or kept[-1] not in (*_ENDS["x"], *_ENDS["y"]):
                    raise LanguageError(f"which {word}? Say left, right, top or bottom", phrase, span_of(word))
            case "CORNER":
                _check_corner(word, kept[-_RUN:], words[i + 1 : i + 1 + _RUN], phrase)
            case "COLOUR":
                kept += _coloured(word, words[i + 1 : i + 2], phrase, vocabulary)
            case _:
                kept.append(word)
    return kept


def _whole_middle(kept: list[Token]) -> list[Token]:
    """What "the middle of the room" says beside its middle: that of both axes, if no other word names one before it."""
    if len(kept) > 1 and kept[-2].type in ("WORD", "NAME"):
        return []
    middle = kept[-1]
    return [middle.update(value="centre" if middle == "middle" else "middle")]


def _check_corner(word: Token, kept: list[Token], after: list[Token], phrase: str) -> None:
    """Refuse a corner of which not both sides are named, "top left"."""
    before = takewhile(lambda each: each.type == "WORD", reversed(kept))
    sides = {*map(str, before)} or {*map(str, takewhile(lambda each: each.type == "WORD", after))}
    if not all(sides & {*ends} for ends in _ENDS.values()):
        ways = [f"'{y} {x}'" for y in reversed(_ENDS["y"]) for x in _ENDS["x"]]
        said = f"which {word}? Say {', '.join(ways[:-1])} or {ways[-1]}"
        raise LanguageError(said, phrase, span_of(word))


def _coloured(word: Token, after: list[Token], phrase: str, vocabulary: "Vocabulary") -> list[Token]:
    """Nothing, where a thing of this colour follows; or the one thing that has it."""
    colours = vocabulary.colours
    if after and after[0].type == "THING":
        own = colours.get(after[0], ())
        if str(word) in own:
            return []
        hint = f"the {after[0]} is {' or '.join(own)}" if own else f"nobody knows the colour of the {after[0]}"
        raise LanguageError(f"there is no {word} {after[0]}: {hint}", phrase, span_of(word, after[0]))
    fitting = [thing for thing, own in colours.items() if str(word) in own]
    if not fitting:
        told = ", ".join(f"the {thing} is {own[0]}" for thing, own in colours.items() if own)
        raise LanguageError(f"nothing here is {word}: {told}", phrase, span_of(word))
    if len(fitting) > 1:
        raise LanguageError(f"{str(word)!r} may be several things: say {' or '.join(fitting)}", phrase, span_of(word))
    return [Token("THING", fitting[0], start_pos=word.start_pos, end_pos=word.end_pos)]


def relation_before(thing: Token, before: list[Token], phrase: str, vocabulary: "Vocabulary") -> Token | None:
    """The word that relates a thing to what stands before it: the `left` of "square left of the circle"."""
    if not vocabulary.plane or thing.type != "THING" or not before:
        return None
    last = before[-1]
    between = phrase[last.end_pos : thing.start_pos].lower().split()
    if last.type in ("BOUND", "BETWEEN") or (last.type == "WORD" and {*between} & {*_OF}):
        return last
    joining = next((word for word in between if word in _ON), "") if last.type == "THING" else ""
    return Token("RELATION", joining, start_pos=last.end_pos, end_pos=last.end_pos) if joining else None


def related(
    word: Token, before: list[Token], after: list[Token], phrase: str, vocabulary: "Vocabulary"
) -> LanguageError:
    """The refusal of a relation between things, with what can be said instead."""
    earlier, later = ([each for each in part if each.type == "THING"] for part in (before, after))
    last = later[: 2 if word.type == "BETWEEN" else 1]
    named = [*map(str, [*earlier[-1:], *last] if later else earlier[-2:])]
    things = [*dict.fromkeys(named)] or [*vocabulary.things][:1]
    end = last[-1] if last else word
    start, stop = word.start_pos or 0, end.end_pos or 0
    start += len(phrase[start:stop]) - len(phrase[start:stop].lstrip())
    quoted = " ".join(phrase[start:stop].lower().split())
    place = " ".join(takewhile(lambda each: each in (*_ENDS["x"], *_ENDS["y"]), map(str, after))) or "top left"
    said = f"no goal says how things lie to each other, as {quoted!r} does, but where each should be"
    return LanguageError(f"{said}: try '{_apart(str(word), things, place)}'", phrase, (start, stop))


def _apart(relation: str, things: list[str], place: str) -> str:
    """An example of where things should be, that are related in some way."""
    if len(things) == 1:
        return f"{things[0]} {place}"
    if relation == "between" and len(things) > 2:
        return f"{things[1]} left, {things[0]} centre, {things[2]} right"
    first, second = things[:2]
    for words, (one, other) in (
        (_ABOVE, ("top", "bottom")),
        (_BELOW, ("bottom", "top")),
        (("left",), ("left", "right")),
        (("right", "apart", "away_from", "far_from"), ("right", "left")),
    ):
        if relation in words:
            return f"{first} {one} and {second} {other}"
    return f"{first} and {second} {place}"
