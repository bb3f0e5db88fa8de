"""`cumulant serve`."""

import contextlib
import ipaddress
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from cumulant.commands.inputs import SHIPPED, BadInput, LibraryGiven
from cumulant.commands.output import on_terminal

_OPEN = "--host {host}: others can reach the page, and nothing is encrypted; put a proxy before it (docs/serving.md)"


@dataclass(frozen=True)
class Serve:
    """Open a page where you type a goal and watch it being reached.

    It prints an address: open that in your browser.
    """

    port: int = 8000  # Where to listen; 0 takes a free one.
    host: str = "127.0.0.1"  # This machine alone; 0.0.0.0 lets others in: put a proxy before it.
    using: LibraryGiven = SHIPPED

    def run(self) -> None:
        """Serve until told to stop, by Ctrl+C or SIGTERM."""
        with _ending_with(lambda number: 128 + number), _listening(self.host, self.port) as listening:
            with on_terminal("loading", False):
                try:
                    from cumulant.web.server import create_app, server_of
                except ModuleNotFoundError as error:
                    raise BadInput(f"the page needs {error.name}: pip install 'cumulant[web]'") from None
                from cumulant.web.player import NotForThePage, Player

                try:
                    player = Player(self.using.load())
                except NotForThePage as error:
                    raise BadInput(str(error)) from None
            with on_terminal("compiling", False):
                next(player.warm_ups())()  # before anybody is let in
            listening.listen()  # who comes now waits a moment, and is not turned away
            host, port = listening.getsockname()[:2]
            server = server_of(create_app(player, self.host))
            with _ending_with(lambda number: 0):
                if not ipaddress.ip_address(host).is_loopback:
                    print(_OPEN.format(host=self.host), file=sys.stderr, flush=True)
                address = f"http://{f'[{host}]' if ':' in host else host}:{port}"
                print(f"Cumulant is at {address} (Ctrl+C stops it)", flush=True)
                server.run(sockets=[listening])


@contextlib.contextmanager
def _ending_with(status: Callable[[int], int]) -> Iterator[None]:
    """End the process with a status of a signal's number when it is told to stop.

    An exception from a handler can get lost where libraries are imported and compiled, and nothing is left to tidy up.
    """
    stops = (signal.SIGINT, signal.SIGTERM)
    before = {stop: signal.signal(stop, lambda number, frame: os._exit(status(number))) for stop in stops}
    try:
        yield
    finally:
        for stop, handler in before.items():
            signal.signal(stop, handler)


def _listening(host: str, port: int) -> socket.socket:
    """A socket bound to the address, before anything slow is done."""
    if not 0 <= port < 2**16:
        raise BadInput(f"a port lies between 0 and {2**16 - 1}, but is {port}")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.socket(family, kind, protocol)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(address)
        except OSError:
            listening.close()
            raise
    except OSError as error:
        raise BadInput(f"cannot listen on {host} port {port}: {error.strerror}") from None
    except ValueError:  # null bytes, and parts that are too long
        raise BadInput(f"cannot listen on {host} port {port}: this is no name of a host") from None
    return listening
