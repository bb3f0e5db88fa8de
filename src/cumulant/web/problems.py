"""What went wrong, in a plain sentence: nothing of what checks types, nothing of what serves pages."""

import logging
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from starlette.exceptions import HTTPException

from cumulant.web.api import Refused
from cumulant.web.schemas import Problem
from cumulant.worlds.failures import WorldFailed

_STATUS = {
    404: "there is nothing of that name here",
    405: "this address takes {allowed} alone",
}
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


def problem_of(error: Exception) -> tuple[int, Problem]:
    """Return the status of an error and what to tell of it. What is a fault of ours is logged."""
    match error:
        case Refused():
            return 422, error.problem
        case RequestValidationError() | ValidationError():
            return 422, Problem(message=complaint(error.errors()))
        case HTTPException():
            return error.status_code, Problem(message=_of_status(error))
        case WorldFailed():  # an environment's own fault, which nobody but its author can mend
            return 500, Problem(message=str(error))
    logging.getLogger(__name__).error("a request failed", exc_info=error)
    return 500, Problem(message="something went wrong here")


def _of_status(error: HTTPException) -> str:
    """Return why an answer has a status: as it was said, or in our words where that was its name alone."""
    named = error.detail == HTTPStatus(error.status_code).phrase
    allowed = " and ".join(sorted((error.headers or {}).get("Allow", "").split(", ")))
    return _STATUS.get(error.status_code, "this cannot be answered").format(allowed=allowed) if named else error.detail


def complaint(errors: Sequence[Mapping[str, Any]]) -> str:
    """Return the first thing that is wrong with a message's types, in a plain sentence.

    >>> complaint([{"type": "less_than_equal", "loc": ("body", "start", 2), "ctx": {"le": 1.0}}])
    'entry 3 of start has to be 1 or less'
    """
    error = errors[0]
    known = {name: int(x) if isinstance(x, float) and x.is_integer() else x for name, x in error.get("ctx", {}).items()}
    parts = [part for part in error["loc"] if part != "body"] if error["type"] != "json_invalid" else []
    place = " of ".join(f"entry {part + 1}" if isinstance(part, int) else _name(part) for part in reversed(parts))
    return f"{place or 'the request'} {_WRONG.get(error['type'], 'makes no sense').format(**known)}"


def _name(part: str) -> str:
    """Return what a client wrote as a name, in one short line."""
    return part if part.isidentifier() and len(part) <= _LONGEST else repr(part[:_LONGEST])
