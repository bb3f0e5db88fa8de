"""The player with its doors: a few threads that compute, and how many may wait."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request

from cumulant.web.guard import Buckets
from cumulant.web.player import Player
from cumulant.web.seats import Seats
from cumulant.worlds.failures import WorldFailed, plainly

_THREADS = 2  # that compute; the event loop stays free
_WAITING = 256  # computations at once, running or waiting


class Service:
    """One for the life of the server."""

    def __init__(self, player: Player):
        """Nothing is computed yet: see `warm_up`."""
        self.player, self.pool = player, ThreadPoolExecutor(_THREADS, "player")
        self.waiting, self.stopped, self.seats, self.buckets = 0, False, Seats(), Buckets()

    async def compute(self, work: Callable[[], Any]) -> Any:
        """Run it in a thread, or refuse if too many wait."""
        if self.stopped:
            raise HTTPException(503, "the server is stopping")
        if self.waiting >= _WAITING:
            raise HTTPException(503, "too many are waiting: try again in a moment")
        self.waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self.pool, _told_plainly, work)
        except WorldFailed as error:  # an environment's own fault, which nobody but its author can mend
            raise HTTPException(500, str(error)) from None
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task and task.cancelling():
                raise  # who asked has left
            raise HTTPException(503, "the server is stopping") from None
        finally:
            self.waiting -= 1

    async def warm_up(self) -> None:
        """Compile in the background, so that nobody waits later."""
        for work in self.player.warm_ups():
            await self.compute(work)

    def stop(self) -> None:
        """Compute nothing more; what is being computed is left alone."""
        self.stopped = True
        self.pool.shutdown(wait=False, cancel_futures=True)

    def charge(self, request: Request, cost: int) -> None:
        """Refuse an address that asks too often."""
        wait = self.buckets.of(request.client.host if request.client else "").wait(cost)
        if wait:
            raise HTTPException(429, f"too many requests: wait {wait:.1f} s", {"Retry-After": str(int(wait) + 1)})


def _told_plainly(work: Callable[[], Any]) -> Any:
    with plainly():
        return work()
