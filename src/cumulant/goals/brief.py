"""A goal in few words, as a person would write it: what was painted is told by the large blocks that make it up."""

from collections.abc import Iterator
from functools import reduce
from itertools import groupby
from operator import and_, or_

from cumulant.goals.phrases import THIRDS, Saying, say
from cumulant.goals.regions import Region
from cumulant.goals.tasks import Task

Block = tuple[int, int]  # which bins of one coordinate, with which of another: two bit masks

_PATTERNS = 12  # different rows of a painting, at most, of which all blocks are looked at


def briefly(task: Task) -> str:
    """A phrase that holds in the same states as the task's own, and is shorter where its parts can be said as one.

    >>> import cumulant
    >>> painted = cumulant.parse("square x 1,2,3/9 y 7/9 or square x 1,2,3/9 y 8,9/9")
    >>> print(painted, "|", briefly(painted))
    square y 7,8,9/9 x 1,2,3/9 | square top left
    >>> briefly(cumulant.parse("square left or square bottom and square not left"))
    'square left or bottom'
    """
    task = task.coarsest()
    bound = _bound(task)
    if not bound or len({task.features[i].of or task.features[i].name for i in bound}) > 1 or len(bound) > 2:
        return str(task if bound or not task.possible else task.on(THIRDS))
    first, second = (bound * 2)[:2]
    rows = [reduce(or_, (c[first] for c in task.clauses if c[second] >> y & 1), 0) for y in range(task.bins)]
    if first == second:  # one coordinate: every row is the same
        rows = [reduce(or_, (clause[first] for clause in task.clauses))] * task.bins
    everything = (1 << task.bins) - 1
    said, missed = (_said(task, first, second, each) for each in (rows, [row ^ everything for row in rows]))
    thing = said[0][0].thing
    phrase = f"{thing} {' or '.join(sorted(map(_place, said), key=_plain))}"
    plainly_denied = len(missed) == 1 and not any(map(_denies, missed[0]))
    denial = (
        f"{thing} not {_place(missed[0])}" if plainly_denied else f"not ({thing} {' or '.join(map(_place, missed))})"
    )
    return min(phrase, denial, key=len)


def _bound(task: Task) -> list[int]:
    """The coordinates that matter."""
    everything = (1 << task.bins) - 1
    return sorted({i for clause in task.clauses for i, mask in enumerate(clause) if mask != everything})


def _said(task: Task, first: int, second: int, rows: list[int]) -> list[list[Saying]]:
    """The blocks of a painting in words: of each, where it lies on one coordinate, on the other, or on both."""
    everything = (1 << task.bins) - 1
    return [
        [
            say(task.features, i, Region(mask, task.bins))
            for i, mask in {first: block[0], second: block[0] if first == second else block[1]}.items()
            if mask != everything
        ]
        for block in _cover(rows)
    ]


def _place(said: list[Saying]) -> str:
    """Where a thing is to be: what is so in one run, as in "top left", then what is not."""
    run = [saying.words for saying in said if not _denies(saying)]
    run = sorted(run, key=_in_bins) if any(map(_in_bins, run)) else run[::-1]  # y before x, and words before bins
    return " and ".join([" ".join(run)] * bool(run) + [saying.words for saying in said if _denies(saying)])


def _denies(saying: Saying) -> bool:
    return saying.value.startswith("not ")


def _in_bins(place: str) -> bool:
    return "/" in place


def _plain(place: str) -> tuple[bool, int]:
    """What to say first: words before bins, few words before many."""
    return _in_bins(place), place.count(" ")


def _cover(rows: list[int]) -> list[Block]:
    """Blocks that together cover the rows of a painting, the one that covers most of what is left first.

    Blocks may overlap: "left or bottom" is shorter than "left, or bottom and not left".
    """
    left, found = list(rows), []
    blocks = list(_blocks(rows))
    while any(left):
        best = max(blocks, key=lambda block: _covers(block, left))
        found.append(best)
        left = [row & ~best[0] if best[1] >> y & 1 else row for y, row in enumerate(left)]
    return [block for i, block in enumerate(found) if not _idle(block, found[:i] + found[i + 1 :], rows)]


def _covers(block: Block, rows: list[int]) -> int:
    """How many cells of the rows lie in a block."""
    return sum((row & block[0]).bit_count() for y, row in enumerate(rows) if block[1] >> y & 1)


def _idle(block: Block, others: list[Block], rows: list[int]) -> bool:
    """Whether the others cover all without it."""
    return all(row == reduce(or_, (mask for mask, which in others if which >> y & 1), 0) for y, row in enumerate(rows))


def _blocks(rows: list[int]) -> Iterator[Block]:
    """The blocks that cannot be extended: of some rows, what they share, and all rows that have it."""
    patterns = [pattern for pattern, _ in groupby(sorted(filter(None, rows)))]
    if len(patterns) <= _PATTERNS:
        subsets = ([p for i, p in enumerate(patterns) if n >> i & 1] for n in range(1, 1 << len(patterns)))
    else:  # too many to look at all: each row by itself, and with each other one
        subsets = ([p, q] for p in patterns for q in patterns)
    for mask in dict.fromkeys(reduce(and_, subset) for subset in subsets):
        if mask:
            yield mask, sum(1 << y for y, row in enumerate(rows) if row & mask == mask)
