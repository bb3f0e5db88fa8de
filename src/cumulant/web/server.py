"""The page and the API behind it. Every offer of the API is a POST request, and a call over a WebSocket.

uvicorn bounds connections, headers and messages; Starlette refuses other hosts; a pool of threads bounds what is
computed at once. Rates by address, slow clients, accounts and encryption are left to a proxy: see docs/serving.md.
"""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata, resources
from types import FrameType
from typing import Any, TypeVar

import uvicorn
from fastapi import FastAPI, Request, Response, WebSocket, WebSocketDisconnect
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.staticfiles import StaticFiles
from pydantic import BaseModel
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cumulant.web import schemas
from cumulant.web.api import OFFERS, Offer, Refused, check_draws, play, world_of
from cumulant.web.player import Player
from cumulant.web.problems import problem_of
from cumulant.worlds.failures import WorldFailed, plainly

Result = TypeVar("Result")

MAX_BYTES = 64 * 1024  # of a request's body, and of a message over the socket
VIEWERS = 128  # sockets at once; further ones are told to try again
WAITING = 256  # computations at once, running or waiting; further ones are told to try again
_THREADS = 2  # that compute, while the event loop stays free
_CONNECTIONS = 900  # pages and sockets; below the 1,024 files that a process may usually open
_AHEAD = 8  # calls of one viewer that are read while another is answered
_IDLE_SECONDS = 120.0  # without a call; the page opens another socket when it needs one
_SEND_SECONDS = 10.0  # for an answer to be taken
_TRY_AGAIN = 1013  # a socket's close code, whose reason the page shows

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

_DESCRIPTION = """Goals in words, acted on at once.

Each POST request can be sent over the WebSocket `/api/socket` too: `{"id": 1, "kind": "episode", "request": {…}}`,
where `kind` is the last part of the path. The answer is `{"id": 1, "reply": {…}}` or `{"id": 1, "problem": {…}}`.
"""
_PROBLEMS: dict[int | str, dict[str, Any]] = {
    code: {"model": schemas.Problem, "description": why}
    for code, why in {
        400: "Not readable",
        403: "From another page",
        413: "Too large",
        422: "No such goal, or not the right type",
        429: "Too busy: try again",
    }.items()
}


class Server(uvicorn.Server):
    """A server that ends at once, with status 0, when it is told to stop: it has nothing to tidy up."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """End the process; what is still being computed is for nobody any more."""
        os._exit(0)


def server_of(app: FastAPI) -> Server:
    """Return the server of an app, with all limits and the security headers."""
    config = uvicorn.Config(
        app,
        http="h11",  # the one whose headers are bounded
        h11_max_incomplete_event_size=16 * 1024,
        headers=list(HEADERS.items()),
        server_header=False,
        limit_concurrency=_CONNECTIONS,
        timeout_keep_alive=5,
        timeout_graceful_shutdown=1,
        ws_max_size=MAX_BYTES,
        ws_ping_interval=20.0,
        ws_ping_timeout=20.0,
        ws_per_message_deflate=False,
        log_level="critical",  # a client's bad manners are no news; our own faults are logged by `problem_of`
    )
    return Server(config)


def create_app(player: Player, host: str = "127.0.0.1", warm_up: bool = True) -> FastAPI:
    """Return the application.

    Args:
        player: What computes the answers.
        host: The address that the server is bound to. If it is one of all addresses, any name of the host is accepted.
        warm_up: Whether to compile in the background, so that nobody waits later.
    """
    desk = Desk(player)

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        compiling = asyncio.create_task(desk.warm_up()) if warm_up else None
        yield
        if compiling:
            compiling.cancel()
        desk.threads.shutdown(cancel_futures=True)

    ours = ("localhost", "127.0.0.1", "[::1]", f"[{host}]" if ":" in host else host)
    app = FastAPI(
        title="Cumulant",
        version=metadata.version("cumulant"),
        description=_DESCRIPTION,
        lifespan=lifespan,
        middleware=[
            Middleware(TrustedHostMiddleware, ["*"] if host in ("0.0.0.0", "::", "") else ours, www_redirect=False),
            Middleware(Guard),
        ],
        docs_url=None,  # the usual page of documentation is loaded from elsewhere; openapi.json is ours
        redoc_url=None,
        redirect_slashes=False,
    )
    for kind in (Refused, RequestValidationError, HTTPException, WorldFailed, Exception):
        app.add_exception_handler(kind, _tell)
    _add_offers(app, desk)

    @app.websocket("/api/socket")
    async def socket(socket: WebSocket) -> None:
        await attend(desk, socket)

    files = StaticFiles(directory=str(resources.files("cumulant.web") / "page"), html=True)

    async def page(request: Request) -> Response:
        return await files.get_response(request.path_params.get("file", "."), request.scope)

    app.add_route("/", page)
    app.add_route("/{file}", page)
    return app


class Guard:
    """Middleware that refuses what another site's page sends, and a body that is too large."""

    def __init__(self, app: ASGIApp):
        """`app` gets what is not refused."""
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or one socket."""
        size, headers = 0, Headers(scope=scope) if scope["type"] != "lifespan" else Headers()

        async def bounded() -> Message:
            nonlocal size
            message = await receive()
            size += len(message.get("body", b""))
            if size > MAX_BYTES:
                raise HTTPException(413, f"a request has at most {MAX_BYTES:,} bytes")
            return message

        origin = headers.get("origin")
        if origin and origin.rpartition("://")[2] != headers.get("host"):
            refused = schemas.Problem(message="this server answers its own page alone")
            return await JSONResponse(refused.model_dump(), 403)(scope, receive, send)
        await self.app(scope, bounded if scope["type"] == "http" else receive, send)


class Desk:
    """A player, the threads that compute for all viewers, and how many may wait for them."""

    def __init__(self, player: Player):
        """Nothing is computed yet."""
        self.player, self.viewers = player, 0
        self.threads, self.places = ThreadPoolExecutor(_THREADS, "player"), asyncio.Semaphore(WAITING)

    async def compute(self, work: Callable[[], Result]) -> Result:
        """Return what `work` returns in a thread. Whoever asked may leave: what has not begun is then not computed."""
        if self.places.locked():
            raise HTTPException(429, "too many are waiting: try again in a moment", {"Retry-After": "5"})
        async with self.places:
            return await asyncio.get_running_loop().run_in_executor(self.threads, plainly()(work))

    async def answer(self, offer: Offer, request: BaseModel) -> str:
        """Return the reply to a request, as JSON."""
        return await self.compute(lambda: offer.answer(self.player, request).model_dump_json())

    async def warm_up(self) -> None:
        """Compile all that the page needs."""
        for work in self.player.warm_ups():
            await self.compute(work)


def _add_offers(app: FastAPI, desk: Desk) -> None:
    player, world = desk.player, world_of(desk.player)

    @app.get("/api/world", responses={403: _PROBLEMS[403]})
    async def describe_world() -> schemas.World:
        """Return what a page needs to know once."""
        return world

    @app.post("/api/gif", responses=_PROBLEMS | {200: {"content": {"image/gif": {}}}}, response_class=Response)
    async def gif(episode: schemas.EpisodeRequest) -> Response:
        """Return an episode as an animation, captioned with its goal."""
        check_draws(player)

        def made() -> bytes:
            aim, played = play(player, episode)
            return player.film(episode.phrase, aim.plan, played)

        return Response(await desk.compute(made), media_type="image/gif")

    for name, offer in OFFERS.items():
        app.post(
            f"/api/{name}",
            name=name,
            description=offer.answer.__doc__,
            response_model=offer.reply,
            responses=_PROBLEMS,
        )(_endpoint(desk, offer))


def _endpoint(desk: Desk, offer: Offer) -> Callable[..., Any]:
    async def answer(body: BaseModel) -> Response:
        return Response(await desk.answer(offer, body), media_type="application/json")

    answer.__annotations__["body"] = offer.request
    return answer


async def attend(desk: Desk, socket: WebSocket) -> None:
    """Answer a viewer's calls, one after the other, until either of the two leaves."""
    await socket.accept()
    if desk.viewers >= VIEWERS:
        return await socket.close(_TRY_AGAIN, f"{VIEWERS} people are watching: try again in a moment")
    desk.viewers += 1
    calls: asyncio.Queue[str | bytes] = asyncio.Queue(_AHEAD)

    async def listen() -> None:
        while (message := await socket.receive())["type"] == "websocket.receive":
            await calls.put(message.get("text") or message.get("bytes") or "")
        raise WebSocketDisconnect

    async def answer() -> None:
        while True:
            try:
                async with asyncio.timeout(_IDLE_SECONDS):  # unlike `wait_for` in Python 3.11, it loses no cancellation
                    call = await calls.get()
            except TimeoutError:
                return await socket.close(1001, "nothing was asked for a while")
            answered = await reply(desk, call)
            async with asyncio.timeout(_SEND_SECONDS):
                await socket.send_text(answered)

    try:
        async with asyncio.TaskGroup() as both:  # whichever fails ends the other
            both.create_task(listen())
            both.create_task(answer())
    except* (WebSocketDisconnect, TimeoutError, RuntimeError):  # gone; does not read; closed by uvicorn
        pass
    finally:
        desk.viewers -= 1


async def reply(desk: Desk, text: str | bytes) -> str:
    """Return the answer to one call over the socket, as JSON."""
    number = "null"
    try:
        call = schemas.Call.model_validate_json(text)
        number = str(call.id)
        if call.kind not in OFFERS:
            raise HTTPException(404, f"unknown kind: choose from {', '.join(OFFERS)}")
        offer = OFFERS[call.kind]
        return f'{{"id":{number},"reply":{await desk.answer(offer, offer.request.model_validate(call.request))}}}'
    except Exception as error:
        return f'{{"id":{number},"problem":{problem_of(error)[1].model_dump_json()}}}'


async def _tell(request: Request, error: Exception) -> Response:
    """Answer a request that failed."""
    status, problem = problem_of(error)
    return JSONResponse(problem.model_dump(), status, getattr(error, "headers", None))
