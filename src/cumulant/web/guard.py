"""What stands between the network and the player: who may ask, how much, how often. Nothing is kept about anybody."""

import time
from collections import OrderedDict
from collections.abc import Callable
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MAX_BYTES = 64 * 1024  # of a request's body, and of a message over the socket
MAX_SESSIONS = 64  # open sockets
_RATE, _BURST = 60.0, 400.0  # units of cost a second, and at once
_ADDRESSES = 1024  # remembered at most, for their rates alone
_ANY_HOST = ("0.0.0.0", "::", "")  # served under whatever name

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
    named = headers.get("host", "")
    ours = host in _ANY_HOST or _hostname(named) in ("localhost", "127.0.0.1", "::1", host)
    origin = headers.get("origin")
    return ours and (origin is None or urlsplit(origin).netloc == named)


def _hostname(named: str) -> str | None:
    try:
        return urlsplit(f"//{named}").hostname
    except ValueError:
        return None


class Guard:
    """Refuses what is not welcome or too large, and sends the security headers with every answer."""

    def __init__(self, app: ASGIApp, host: str):
        """`host` is the address that the server is bound to."""
        self.app, self.host = app, host

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request; sockets are checked where they are accepted."""
        if scope["type"] != "http":
            return await self.app(scope, receive, send)

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        headers = Headers(scope=scope)
        if not welcome(headers, self.host):
            return await _refuse(403, "this server answers its own page alone")(scope, receive, with_headers)
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


def _refuse(status: int, message: str) -> JSONResponse:
    return JSONResponse({"message": message, "span": None, "suggestion": ""}, status)
