"""So many viewers are served at once; the others queue, first come, first served."""

import asyncio
from collections import deque

SEATS = 128  # viewers at once
QUEUE = 64  # who wait for a seat; further ones are turned away


class Seats:
    """The seats and the queue. All in one event loop."""

    def __init__(self, seats: int = SEATS, queue: int = QUEUE):
        """All free."""
        self.seats, self.free, self.limit = seats, seats, queue
        self.queue: deque[asyncio.Future[None]] = deque()

    @property
    def full(self) -> bool:
        """Whether not even the queue has room."""
        return len(self.queue) >= self.limit

    def join(self) -> asyncio.Future[None]:
        """A ticket, which is done as soon as it is a seat. Give it back with `leave`."""
        ticket = asyncio.get_running_loop().create_future()
        if self.free:
            self.free -= 1
            ticket.set_result(None)
        else:
            self.queue.append(ticket)
        return ticket

    def place(self, ticket: asyncio.Future[None]) -> int:
        """How many are served before the ticket's owner: 1 for whoever is next, 0 for whoever has a seat."""
        return self.queue.index(ticket) + 1 if ticket in self.queue else 0

    def leave(self, ticket: asyncio.Future[None]) -> None:
        """Leave the queue, or hand the seat to whoever is next."""
        if ticket in self.queue:
            self.queue.remove(ticket)
        elif self.queue:
            self.queue.popleft().set_result(None)
        else:
            self.free += 1
