"""What stands between the network and the player: who may ask, how much, how often. Nothing is kept about anybody."""

import json
import re
import time
from collections import OrderedDict
from collections.abc import Callable

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocket

MAX_BYTES = 64 * 1024  # of a request's body, and of a message over the socket
OVER_LIMIT = "over_limit"  # what marks, in a request's state, a connection too many of its address
_RATE, _BURST = 60.0, 400.0  # units of cost a second, and at once
_ADDRESSES = 1024  # remembered at most, for their rates alone
_ANY_HOST = ("0.0.0.0", "::", "")  # served under whatever name
_AUTHORITY = re.compile(r"(\[[0-9a-f:.]+\]|[\w.-]+)(?::\d{1,5})?", re.ASCII | re.IGNORECASE)  # host, perhaps a port
TOO_MANY = "there are too many connections from your address: close some, or wait"

_WHEN_REFUSED = {"Retry-After": "10", "Connection": "close"}

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}


class Bucket:
    """A token bucket: as much as _BURST at once, and _RATE a second in the long run."""

    def __init__(self, clock: Callable[[], float] = time.monotonic):
        """Full at first."""
        self.clock, self.level, self.at = clock, _BURST, clock()

    def wait(self, cost: int) -> float:
        """Take `cost` if there is enough, and return 0; otherwise the seconds until there is."""
        now = self.clock()
        self.level, self.at = min(_BURST, self.level + (now - self.at) * _RATE), now
        if self.level < cost:
            return (cost - self.level) / _RATE
        self.level -= cost
        return 0.0


class Buckets:
    """One for each address, for those of the last while alone."""

    def __init__(self) -> None:
        """None yet."""
        self.known: OrderedDict[str, Bucket] = OrderedDict()

    def of(self, address: str) -> Bucket:
        """The address's bucket; the one not asked for longest makes room."""
        bucket = self.known.pop(address, None) or Bucket()
        self.known[address] = bucket
        if len(self.known) > _ADDRESSES:
            self.known.popitem(last=False)
        return bucket


def welcome(headers: Headers, host: str) -> bool:
    """Whether a request was meant for us: our own name, and from our own page or from no page at all.

    Another site's page can send requests here under its own origin, or under a name that it points at this machine.
    """
    named = _AUTHORITY.fullmatch(headers.get("host", ""))
    if named is None:
        return False
    ours = host in _ANY_HOST or named[1].strip("[]").lower() in ("localhost", "127.0.0.1", "::1", host)
    return ours and headers.get("origin") in (None, f"http://{named[0]}", f"https://{named[0]}")


class Guard:
    """Refuses what is not welcome or too large, and sends the security headers with every answer."""

    def __init__(self, app: ASGIApp, host: str):
        """`host` is the address that the server is bound to."""
        self.app, self.host = app, host

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request, or one socket."""
        if scope["type"] not in ("http", "websocket"):
            return await self.app(scope, receive, send)

        async def with_headers(message: Message) -> None:
            if message["type"] in ("http.response.start", "websocket.http.response.start"):
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        if not welcome(Headers(scope=scope), self.host):
            return await _refuse(403, "this server answers its own page alone")(scope, receive, with_headers)
        if scope["type"] == "websocket":
            enter = _turn_away if scope.get("state", {}).get(OVER_LIMIT) else self.app
            return await enter(scope, receive, with_headers)
        if scope.get("state", {}).get(OVER_LIMIT):
            return await _refuse(429, TOO_MANY, _WHEN_REFUSED)(scope, receive, with_headers)
        body = await _body(receive)
        if body is None:
            return await _refuse(413, f"a request has at most {MAX_BYTES} bytes")(scope, receive, with_headers)

        async def replay() -> Message:
            nonlocal body
            if body is None:
                return await receive()
            whole, body = body, None
            return {"type": "http.request", "body": whole, "more_body": False}

        await self.app(scope, replay, with_headers)


async def _body(receive: Receive) -> bytes | None:
    """The whole body, or None if it is too large."""
    body = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if len(body) > MAX_BYTES:
            return None
        if not message.get("more_body"):
            return body


async def _turn_away(scope: Scope, receive: Receive, send: Send) -> None:
    """A socket too many. It is opened first, for a page hears nothing of why a socket was not."""
    socket = WebSocket(scope, receive, send)
    await socket.accept()
    await socket.close(1013, TOO_MANY)


def problem(message: str) -> bytes:
    """What is wrong, as every answer of the API tells it."""
    return json.dumps({"message": message, "span": None, "suggestion": ""}).encode()


def _refuse(status: int, message: str, headers: dict[str, str] | None = None) -> Response:
    return Response(problem(message), status, headers, "application/json")
