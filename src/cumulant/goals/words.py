"""The words of a phrase: which there are, which are filler, where each stands; and what is said of an unknown one."""

import re
from collections.abc import Iterator
from difflib import get_close_matches
from functools import lru_cache
from itertools import islice

from lark import Token

from cumulant.goals.clauses import MAX_CLAUSES
from cumulant.goals.errors import LanguageError, span_of
from cumulant.goals.everyday import EVERYDAY, settled
from cumulant.goals.feature import Feature
from cumulant.goals.regions import MAX_BINS
from cumulant.goals.vocabulary import ELSEWHERE, PLANNING, RESERVED, Vocabulary

MAX_CHARACTERS = 2000  # that a person writes; a canonical phrase may be longer, and is read as well
MAX_DEPTH = 50
_LIKENESS = 0.7  # of a misspelt word and the one suggested, at least: a star is no square
_SHORT = 3  # letters of a word that many others are like: a hand is no "and", and north no "not"
FILLER = frozenset(
    "get move put bring the a to at in into of on towards side corner position region first "
    "is are be should must please let make go i want".split()
)
# What people say for what the language says, where it is in this world.
_INSTEAD = dict(
    zip(
        "but while avoid avoiding isn't aren't no except under over up down north south west east high low".split(),
        "and and without without not not not not below above top bottom top bottom left right top bottom".split(),
        strict=True,
    )
)
_VALUES = ("WORD", "GRID", "NUMBER", "ANYWHERE")  # with which a condition ends
_CONTINUES = ("WORD", "GRID", "BOUND", "BETWEEN", "ANYWHERE")  # which may go on with one


@lru_cache(maxsize=64)
def _longest(features: tuple[Feature, ...]) -> int:
    """Characters that are read: as many as the longest canonical phrase has, so that each parses back."""
    bins = ",".join(str(b) for b in range(2, MAX_BINS + 1))  # all but one, and that of one digit
    conditions = [
        f"{each.of} {each.name} not {max(bins, *each.regions, 2 * each.unit, key=len)}/{MAX_BINS} and "
        for each in features
    ]
    return max(MAX_CHARACTERS, MAX_CLAUSES * len("".join([*conditions, " and keep "])))


def words_of(phrase: str, vocabulary: Vocabulary) -> list[Token]:
    """The words that carry meaning, at most as many as a canonical phrase may have or a person may write."""
    features, longest = vocabulary.features, _longest(vocabulary.features)
    if len(phrase) > longest:
        raise LanguageError(f"the phrase has {len(phrase):,} characters, and at most {longest:,} are read")
    condition = "thing name not between 1 and 2 and"
    limit = max(MAX_CHARACTERS, MAX_CLAUSES * (len(features) * len(condition.split()) + len(PLANNING)))
    words = list(islice(_recognised(phrase, vocabulary), limit + 1))
    if len(words) > limit:
        raise LanguageError(f"the phrase has more than {limit:,} words, which are all that is read")
    if all(word.type == "COMMA" for word in words):
        last = features[-1]
        example = " ".join(filter(None, [last.of or last.name, last.regions[-1]]))
        raise LanguageError(f"the phrase names no goal: try '{example}'")
    words = _with_commas_read(settled(words, phrase, vocabulary), vocabulary)
    _refuse_depth(words, phrase)
    return [word for word, following in zip(words, [*words[1:], None], strict=True) if not _idle(word, following)]


def _idle(word: Token, following: Token | None) -> bool:
    """Whether a word adds nothing to the next: the `and` of "and then"."""
    return word.type == "_AND" and following is not None and following.type in PLANNING.values()


def _with_commas_read(words: list[Token], vocabulary: Vocabulary) -> list[Token]:
    """A comma between conditions, or between things, is an `and`; any other is a pause."""
    read: list[Token] = []
    owner: list[int] = []  # what was last spoken of
    for i, word in enumerate(words):
        if word.type == "THING" or (word.type == "NAME" and not _among(word, owner, vocabulary)):
            earlier, owner = owner, vocabulary.about(word.type, word)
        else:
            earlier = owner
        if word.type != "COMMA":
            read.append(word)
            continue
        before, after = (read[-1] if read else None), next((w for w in words[i + 1 :] if w.type != "COMMA"), None)
        if before is not None and after is not None and _joins(before.type, after, words[i + 1 :], earlier, vocabulary):
            read.append(Token("_AND", word, start_pos=word.start_pos, end_pos=word.end_pos))
    return read


def _joins(before: str, after: Token, rest: list[Token], owner: list[int], vocabulary: Vocabulary) -> bool:
    if before == "THING":
        return after.type == "THING"
    if before == "_CLOSE":
        return after.type in ("THING", "NAME", "_NOT", "_OPEN", *_CONTINUES)
    if after.type == "NAME":  # "x 2/7, y 3/7" is one place, as "top, left" is
        denied = [word.type for word in rest if word.type != "COMMA"][1:2] == ["_NOT"]
        return before in _VALUES and (denied or not _among(after, owner, vocabulary))
    return before in _VALUES and after.type in ("THING", "_NOT", "_OPEN")


def _among(name: Token, coordinates: list[int], vocabulary: Vocabulary) -> bool:
    return any(i in coordinates for i in vocabulary.about("NAME", name))


def _recognised(phrase: str, vocabulary: Vocabulary) -> Iterator[Token]:
    """Every word but filler, with its kind and its place in the phrase."""
    at = 0
    about: list[int] = []  # the coordinates that were last spoken of
    while match := vocabulary.pattern.search(phrase, at):
        word, end = _whole(match, vocabulary)
        start, at = match.start(), end
        kind, meant = vocabulary.kinds.get(word, ("", word))
        if kind == "WORD" and word in FILLER and not any(meant in vocabulary.words[i] for i in about):
            continue  # the "on" of a lamp is filler in "the square on the left"
        if kind in ("THING", "NAME"):
            about = vocabulary.about(kind, meant)
        elif not kind and word in RESERVED:
            kind = RESERVED[word]
        elif not kind and match.lastgroup != "word":
            kind = str(match.lastgroup)
        elif not kind and word in FILLER:
            continue
        elif not kind:
            raise _unknown(word, phrase, (start, end), vocabulary, about)
        yield Token(kind, meant, start_pos=start, end_pos=end)


_NEXT = re.compile(r"[\s_]*")


def _whole(match: re.Match[str], vocabulary: Vocabulary) -> tuple[str, int]:
    """The word that begins here, in small letters, and its end: as many words as name one thing together."""
    if match.lastgroup != "word":
        return match[0], match.end()
    text, pattern = match.string, vocabulary.pattern
    word, found = match[0].lower(), (match[0].lower(), match.end())
    for _ in range(vocabulary.longest - 1):
        match_next = pattern.match(text, _NEXT.match(text, match.end()).end())  # type: ignore[union-attr]  # may be empty
        if match_next is None or match_next[0] in "(),":
            break
        match, word = match_next, f"{word}_{match_next[0].lower()}"
        if word in vocabulary.kinds or word in RESERVED:
            found = word, match.end()
    return found


def _unknown(word: str, phrase: str, span: tuple[int, int], vocabulary: Vocabulary, about: list[int]) -> LanguageError:
    shown = word if len(word) <= 40 else word[:40] + "…"
    suggestion = "" if word == "but" and "anywhere" in phrase.lower() else _suggestion(word, vocabulary)
    if word in ELSEWHERE and about and not suggestion:
        return LanguageError(f"{shown!r} does not fit: {vocabulary.has(about)}", phrase, span)
    if word[0].isdecimal() and "," in word:
        return LanguageError(f"{shown!r} is no number, as 21.5, and no parts, as 2,3/5", phrase, span)
    hint = f"; did you mean {suggestion!r}?" if suggestion else f": this world has {', '.join(vocabulary.things)}"
    return LanguageError(f"unknown word {shown!r}{hint}", phrase, span, suggestion)


def _suggestion(word: str, vocabulary: Vocabulary) -> str:
    """A word that may have been meant; empty if none makes sense."""
    own = [said for said, (kind, _) in vocabulary.kinds.items() if kind not in EVERYDAY]
    known = [*own, *(said for said in RESERVED if said.isalpha() or "_" in said)]
    instead = _INSTEAD.get(word, "")
    if word in ELSEWHERE or instead:
        return instead if instead in known and (vocabulary.plane or instead in RESERVED) else ""
    close = get_close_matches(word, known, n=1, cutoff=_LIKENESS)
    longer = [said for said in known if len(word) > 2 and said.startswith(word)]
    likely = [
        said for said in [*close, *longer] if len(said) > _SHORT or (said[0] == word[0] and len(word) <= 1 + _SHORT)
    ]
    return next(iter(likely), "").replace("_", " ")


def _refuse_depth(words: list[Token], phrase: str) -> None:
    """Refuse what no person means before it can exhaust the stack."""
    parentheses = negations = 0
    for word in words:
        parentheses += (word.type == "_OPEN") - (word.type == "_CLOSE")
        negations = negations + 1 if word.type == "_NOT" else negations if word.type == "_OPEN" else 0
        if parentheses + negations > MAX_DEPTH:
            raise LanguageError(f"the phrase is nested more than {MAX_DEPTH} deep", phrase, span_of(word))
