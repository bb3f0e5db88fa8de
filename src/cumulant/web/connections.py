"""Connections: how long they may take, how many one address may have, and how they end when the server stops."""

import asyncio
import contextlib
import logging
import sys
from http import HTTPStatus
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol
from websockets.http11 import Request
from websockets.server import ServerProtocol

from cumulant.web.guard import HEADERS, MAX_BYTES, OVER_LIMIT, TOO_MANY, problem

PER_ADDRESS = 32  # connections of one address, pages and sockets together; as many again are heard and told so
MAX_CONNECTIONS = 512  # of all addresses
_BACKLOG = 128  # accepted at once
_REQUEST_SECONDS = 10.0  # for a whole request to arrive, and for an answer to be taken
_REFUSED_SECONDS = 2.0  # the same for a connection that is over the limit
_GOODBYE_SECONDS = 1.0  # for connections to end when the server stops
_PING_SECONDS = 20.0


class Connection(H11Protocol):
    """HTTP/1.1 as uvicorn speaks it, but nobody can hold a connection by sending or reading slowly, or not at all."""

    over_limit = False
    _overdue: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # uvicorn's
        """Let it in; one too many is still read, so that it can be told."""
        super().connection_made(transport)
        same = _from_address(self)
        if same > PER_ADDRESS:
            self.over_limit = True
            self.app_state = {**self.app_state, OVER_LIMIT: True}  # the guard sees to it, be it a page or a socket
        if same > 2 * PER_ADDRESS:
            return self._answer(429, TOO_MANY)
        if len(self.connections) > MAX_CONNECTIONS:
            return self._answer(503, "too many are connected: try again in a moment")
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Gone: nothing is overdue any more."""
        self._unwatch()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read on, and see whether the request is whole."""
        super().data_received(data)
        self._watch()

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        """From here on it is a socket, which has limits of its own."""
        self._unwatch()
        if not _opens_socket(event):
            return self._answer(403, "the headers are malformed")
        super().handle_websocket_upgrade(event)
        self._look_after_socket()

    def on_response_complete(self) -> None:
        """Answered: the next request may come."""
        super().on_response_complete()
        self._watch()

    def pause_writing(self) -> None:
        """Whoever does not read what was asked for has as long as whoever does not finish asking."""
        super().pause_writing()
        self._unwatch()
        self._watch(owing=True)

    def resume_writing(self) -> None:
        """It was read after all."""
        super().resume_writing()
        self._unwatch()
        self._watch()

    def send_400_response(self, msg: str) -> None:
        """What is no HTTP is refused in words and with all headers; in h11's view, headers are most of what can be."""
        error = sys.exception()
        if isinstance(error, h11.RemoteProtocolError) and error.error_status_hint == HTTPStatus(431):
            self._answer(431, "the headers are too long")
        elif "request line" in str(error):
            self._answer(400, "this is no HTTP request")
        else:
            self._answer(403, "the headers are malformed")

    def _watch(self, owing: bool = False) -> None:
        """Set the alarm while the client owes something, and turn it off when it does not."""
        owing = owing or self.conn.their_state in (h11.IDLE, h11.SEND_BODY)
        if not owing or self.transport.get_protocol() is not self:
            self._unwatch()
        elif self._overdue is None:
            seconds = _REFUSED_SECONDS if self.over_limit else _REQUEST_SECONDS
            self._overdue = self.loop.call_later(seconds, self._give_up)

    def _unwatch(self) -> None:
        if self._overdue:
            self._overdue.cancel()
        self._overdue = None

    def _give_up(self) -> None:
        self._overdue = None
        if self.transport.get_write_buffer_size() or self.transport.is_closing():
            self.transport.abort()  # closing would wait for the client to read
        else:
            self._answer(408, "the request took too long")

    def _look_after_socket(self) -> None:
        """Cut off a socket that was closed and is still there at the next look: its client does not read."""
        if self.transport.is_closing():
            self.transport.abort()
        else:
            self.loop.call_later(_REQUEST_SECONDS, self._look_after_socket)

    def _answer(self, status: int, message: str) -> None:
        """Say it past h11, which may be in any state, and hang up; say nothing where an answer has begun."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE) and not self.transport.is_closing():
            body = problem(message)
            lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}", "connection: close"]
            lines += ["content-type: application/json", f"content-length: {len(body)}"]
            lines += [f"{name.lower()}: {value}" for name, value in HEADERS.items()]
            self.transport.write("\r\n".join([*lines, "", ""]).encode() + body)
        self.transport.close()


def _from_address(connection: Connection) -> int:
    """How many connections there are from the same address, this one included."""
    return sum(_address(each) == _address(connection) for each in connection.connections)


def _address(connection: Any) -> str:
    return connection.client[0] if connection.client else ""


def _opens_socket(event: h11.Request) -> bool:
    """Whether a request to open a socket is one. Tried out beforehand: what fails later is answered with no headers."""
    lines = [b"%s %s HTTP/1.1" % (event.method, event.target), *(b"%s: %s" % header for header in event.headers)]
    trial = ServerProtocol()
    trial.receive_data(b"\r\n".join([*lines, b"", b""]))
    request = next(iter(trial.events_received()), None)
    return isinstance(request, Request) and trial.accept(request).status_code == HTTPStatus.SWITCHING_PROTOCOLS


class Server(uvicorn.Server):
    """Stops without complaint: what is still being computed is for nobody any more."""

    async def shutdown(self, sockets: list | None = None) -> None:
        """Say goodbye to everybody, and wait a moment for it to arrive."""
        for server in self.servers:
            server.close()
        for listening in sockets or []:
            listening.close()
        for connection in list(self.server_state.connections):
            with contextlib.suppress(Exception):  # it may be closing already, and this is the end anyway
                connection.shutdown()
        until = asyncio.get_running_loop().time() + _GOODBYE_SECONDS
        while self.server_state.connections and not self.force_exit and asyncio.get_running_loop().time() < until:
            await asyncio.sleep(0.05)
        await self.lifespan.shutdown()


def server_of(app: Any) -> Server:
    """The server of an app, with all limits."""
    config = uvicorn.Config(
        app,
        http=Connection,
        loop="asyncio",  # whatever else is installed: `Connection` is made for its transports
        log_level="error",  # a client's bad manners are no news
        backlog=_BACKLOG,
        ws_max_size=MAX_BYTES,
        ws_per_message_deflate=False,
        ws_ping_interval=_PING_SECONDS,
        ws_ping_timeout=_PING_SECONDS,
        server_header=False,
    )
    logging.getLogger("uvicorn.error").addFilter(_is_news)
    return Server(config)


def _is_news(record: logging.LogRecord) -> bool:
    """Whether a line belongs in the log: that a client sent bytes where text belongs, or left early, does not."""
    garbled = bool(record.exc_info and isinstance(record.exc_info[1], UnicodeDecodeError))
    return not garbled and "without completing handshake" not in record.getMessage()
