"""A server of a library for tests: in a thread, so that the types of all that it computes are checked too."""

import contextlib
import json
import socket
import threading
import time

from cumulant.transfer.library import Library
from cumulant.web.player import Player
from cumulant.web.server import server_of

PHRASE = "square top left and circle right"
PLAN = "keep square left then circle top without agent bottom"


def player_of(folder):
    return Player(Library.load(folder))


@contextlib.contextmanager
def serving(app):
    """The app's address, while it runs."""
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
    """The answer to a call over an open socket."""
    socket.send(json.dumps({"id": 7, "kind": kind, "request": request}))
    answer = json.loads(socket.recv())
    assert answer["id"] == 7
    return answer
