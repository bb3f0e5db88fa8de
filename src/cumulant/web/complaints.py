"""What is wrong with a message, in a plain sentence: nothing of what checks types, nothing of what serves pages."""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from cumulant.web.schemas import Problem

_WRONG = {  # kinds of errors, as pydantic names them → what to say, with what it knows
    "missing": "is missing",
    "extra_forbidden": "is nothing that this request knows",
    "string_type": "has to be text",
    "string_unicode": "has to be text",
    "string_too_long": "has at most {max_length:,} characters",
    "int_type": "has to be a whole number",
    "int_from_float": "has to be a whole number",
    "int_parsing_size": "has to be a smaller number",
    "float_type": "has to be a number",
    "finite_number": "has to be a finite number",
    "list_type": "has to be a list",
    "too_long": "has at most {max_length:,} entries",
    "dict_type": "has to be a JSON object",
    "model_type": "has to be a JSON object",
    "model_attributes_type": "has to be a JSON object",
    "greater_than_equal": "has to be {ge:,} or more",
    "less_than_equal": "has to be {le:,} or less",
    "less_than": "has to be below {lt:,}",
    "literal_error": "has to be {expected}",
    "json_invalid": "is no JSON",
}
_LONGEST = 40  # characters of a name
_STATUS = {404: "there is nothing of that name here", 405: "this address takes {allowed} alone"}


def first_of(errors: Sequence[Any]) -> Problem:
    """The first thing that is wrong with a message's types.

    >>> first_of([{"type": "less_than_equal", "loc": ("body", "start", 2), "ctx": {"le": 1.0}}]).message
    'entry 3 of start has to be 1 or less'
    """
    error = errors[0]
    known = {name: _number(value) for name, value in error.get("ctx", {}).items()}
    said = _WRONG.get(error["type"], "makes no sense").format(**known)
    return Problem(message=f"{_place(error)} {said}")


def of_status(code: int, detail: str, headers: Mapping[str, str] | None) -> Problem:
    """Why an answer has a status: as it was said, or in our words where that was its name alone."""
    if detail != HTTPStatus(code).phrase:
        return Problem(message=detail)
    said = _STATUS.get(code, "this cannot be answered")
    return Problem(message=said.format(allowed=(headers or {}).get("Allow", "other methods").replace(", ", " and ")))


def _place(error: Any) -> str:
    """Which part of a message: "entry 3 of start", counted from 1, and the message itself as a whole."""
    parts = [part for part in error["loc"] if part != "body"]
    if not parts or error["type"] == "json_invalid":
        return "the request"
    return " of ".join(f"entry {part + 1}" if isinstance(part, int) else _name(part) for part in reversed(parts))


def _name(part: str) -> str:
    """Whatever the client wrote there, in one short line."""
    return part if part.isidentifier() and len(part) <= _LONGEST else repr(part[:_LONGEST])


def _number(value: Any) -> Any:
    """1, not 1.0."""
    return int(value) if isinstance(value, float) and value.is_integer() else value
