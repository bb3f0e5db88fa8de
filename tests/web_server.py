"""Servers of small libraries for tests: in a thread, so that the types of all that is computed are checked too."""

import contextlib
import json
import socket
import threading
import time
from functools import cache

from conftest import THIRDS

from cumulant.transfer.library import Library
from cumulant.web.player import Player
from cumulant.web.server import server_of
from other_worlds import crane_library, room_library

PHRASE = "square top left and circle right"
PLAN = "keep square left then circle top without agent bottom"
ROOM_PLAN = "keep lamp on then temperature warm without volume loud"
UP_AND_DOWN = "load down then load up"


@cache
def player_in(world):
    """Return the player of a library: of sprites, of a room, or of a crane on the host."""
    return Player({"sprites": lambda: Library.load(THIRDS), "room": room_library, "crane": crane_library}[world]())


@contextlib.contextmanager
def serving(app):
    """Yield the app's address, while it runs."""
    listening = socket.create_server(("127.0.0.1", 0))
    server = server_of(app)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield f"127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        listening.close()


def ask(socket, kind, **request):
    """Return the answer to a call over an open socket."""
    socket.send(json.dumps({"id": 7, "kind": kind, "request": request}))
    answer = json.loads(socket.recv())
    assert answer["id"] == 7
    return answer
