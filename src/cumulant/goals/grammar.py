"""The grammar of phrases: words → tree; and what is said of a word that stands where none of its kind can."""

from collections.abc import Iterator
from typing import Any, cast

from lark import Lark, Token, Tree, UnexpectedToken
from lark.lexer import Lexer

from cumulant.goals.errors import LanguageError, span_of
from cumulant.goals.everyday import related, relation_before
from cumulant.goals.vocabulary import Vocabulary

# A subject may be several things ("square and circle left"); a place without one repeats the last ("left or right"),
# unless it names a feature that only another thing has ("lamp on and temperature warm").
# A `not` right before a place belongs to it and holds for every thing of the subject: "square and circle not left" is
# neither. A `not` before a thing or a parenthesis is of all that follows: "not (square and circle left)" is not both.
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
    ?condition: subject place -> placed | (where | denied) -> repeated | _OPEN either _CLOSE
    subject: THING | THING (_AND THING)+ -> both_of | THING (_OR THING)+ -> either_of
    ?place: where | _NOT where -> negated | denied
    where: value+
    denied: NAME _NOT _value
    value: NAME? _value
    _value: WORD | GRID | ANYWHERE | BOUND NUMBER | BETWEEN NUMBER _AND NUMBER
    %declare _AND _OR _NOT _OPEN _CLOSE _THEN _KEEP _WITHOUT THING NAME WORD GRID ANYWHERE BOUND BETWEEN NUMBER
"""


class _GivenWords(Lexer):
    """Lets Lark parse words that were recognised already."""

    def __init__(self, lexer_conf: Any):
        pass

    def lex(self, words: Any) -> Iterator[Token]:  # type: ignore[override]  # Lark's interface for custom lexers
        yield from words


_PARSER = Lark(_GRAMMAR, parser="lalr", lexer=_GivenWords)


def tree_of(words: list[Token], phrase: str, vocabulary: Vocabulary) -> Tree:
    """What the words of a phrase are to each other."""
    try:
        return cast(Tree, _PARSER.parse(cast(Any, words)))  # our lexer takes words, not text
    except UnexpectedToken as error:
        raise _misplaced(error, words, phrase, vocabulary) from None


def _misplaced(error: UnexpectedToken, words: list[Token], phrase: str, vocabulary: Vocabulary) -> LanguageError:
    """Say what was expected in place of the unexpected word, or after the last one."""
    expected = error.accepts or error.expected
    ended = error.token.type == "$END"
    before = [word for word in words if ended or span_of(word) < span_of(error.token)]
    if relation := relation_before(error.token, before, phrase, vocabulary):
        return related(relation, before, words[len(before) :], phrase, vocabulary)
    if "_CLOSE" in expected:
        hint = "a parenthesis is still open"
    elif "$END" in expected:
        hint = "expected 'and' or 'or'"
    elif "NUMBER" in expected:
        hint = "expected a number"
    elif expected == {"_AND"}:
        hint = "say 'between' one number 'and' another"
    elif "THING" in expected:
        hint = f"name a thing: {', '.join(vocabulary.things)}"
    else:
        named = next(word for word in reversed(before) if word.type in ("THING", "NAME"))
        hint = f"say where, or how: {vocabulary.has(vocabulary.about(named.type, named))}"
    if ended:
        end = words[-1].end_pos or 0
        return LanguageError(f"the phrase ends too early: {hint}", phrase, (end, end + 1))
    quoted = phrase[slice(*span_of(error.token))]
    return LanguageError(f"did not expect {quoted!r} here: {hint}", phrase, span_of(error.token))
