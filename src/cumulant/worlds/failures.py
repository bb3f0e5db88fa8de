"""What a world that runs outside of compiled programs says when it fails: one line, in place of JAX's many."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import jax


class WorldFailed(Exception):
    """An environment raised, or showed what is no observation; the message says which, where, and in which episode.

    >>> raise WorldFailed("FetchPush-v4 raised ValueError: no such joint, in step 12 of its episode of seed 7")
    Traceback (most recent call last):
    cumulant.worlds.failures.WorldFailed: FetchPush-v4 raised ValueError: no such joint, in step 12 of its episode of seed 7
    """  # noqa: E501


_met: list[BaseException] = []  # on the host, last, and not told yet: a program hands on no more than its text


@contextmanager
def remembered() -> Iterator[None]:
    """Around what the host does for a program: what is raised there can be told `plainly`."""
    try:
        yield
    except BaseException as failure:
        _met[:] = [failure]
        raise


@contextmanager
def plainly() -> Iterator[None]:
    """Around a program that may step environments on the host, up to its end: raise what was raised there.

    >>> import jax, cumulant
    >>> with plainly():
    ...     jax.block_until_ready(jax.jit(lambda x: x + 1)(1))
    Array(2, dtype=int32, weak_type=True)
    """
    try:
        yield
    except jax.errors.JaxRuntimeError as error:
        failure = _met.pop() if _met else None
        if failure is None or type(failure).__name__ not in str(error):
            raise
        raise failure from failure.__cause__


def _is_news(record: logging.LogRecord) -> bool:
    """Whether JAX has something to log that is not told anyway."""
    return not record.exc_info or not isinstance(record.exc_info[1], WorldFailed)


logging.getLogger("jax._src.callback").addFilter(_is_news)
