"""The page and the API behind it. Every offer of the api is a POST request, and a call over the socket."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata, resources
from typing import Any

from fastapi import FastAPI, Request, Response, WebSocket, WebSocketDisconnect
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.staticfiles import StaticFiles
from pydantic import BaseModel, ValidationError
from starlette.exceptions import HTTPException

from cumulant.web import schemas
from cumulant.web.api import OFFERS, Offer, Refused, play, world_of
from cumulant.web.guard import MAX_SESSIONS, Bucket, Buckets, Guard, welcome
from cumulant.web.player import Player

_THREADS = 2  # that compute; the event loop stays free
_WAITING = 128  # computations at once, running or waiting
_GIF_COST = 20
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
        429: "Too often",
        503: "Too busy",
    }.items()
}


class Service:
    """The player with its doors: a few threads that compute, and how many may wait."""

    def __init__(self, player: Player):
        """One for the life of the server."""
        self.player, self.pool = player, ThreadPoolExecutor(_THREADS, "player")
        self.waiting, self.sessions, self.buckets = 0, 0, Buckets()

    async def compute(self, work: Callable[[], Any]) -> Any:
        """Run it in a thread, or refuse if too many wait."""
        if self.waiting >= _WAITING:
            raise HTTPException(503, "too many are waiting: try again in a moment")
        self.waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self.pool, work)
        finally:
            self.waiting -= 1

    async def warm_up(self) -> None:
        """Compile in the background, so that nobody waits later."""
        for work in self.player.warm_ups():
            await self.compute(work)

    def charge(self, request: Request, cost: int) -> None:
        """Refuse an address that asks too often."""
        wait = self.buckets.of(request.client.host if request.client else "").wait(cost)
        if wait:
            raise HTTPException(429, f"too many requests: wait {wait:.1f} s", {"Retry-After": str(int(wait) + 1)})


def create_app(player: Player, host: str = "127.0.0.1", warm_up: bool = True) -> FastAPI:
    """The application, to be bound to `host`; it compiles in the background unless told not to."""
    service = Service(player)

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        rest = asyncio.create_task(service.warm_up()) if warm_up else None
        yield
        if rest:
            rest.cancel()
        service.pool.shutdown(wait=False, cancel_futures=True)

    app = FastAPI(
        title="Cumulant",
        version=metadata.version("cumulant"),
        description=_DESCRIPTION,
        lifespan=lifespan,
        docs_url=None,  # the usual page of documentation is loaded from elsewhere; openapi.json is ours
        redoc_url=None,
    )
    app.add_middleware(Guard, host=host)
    _add_problems(app)
    _add_offers(app, service)
    _add_socket(app, service, host)
    app.mount("/", StaticFiles(directory=str(resources.files("cumulant.web") / "page"), html=True))
    return app


def _add_problems(app: FastAPI) -> None:
    """Everything that goes wrong is told in the same form."""

    @app.exception_handler(Refused)
    async def refused(request: Request, error: Refused) -> Response:
        return JSONResponse(error.problem.model_dump(), 422)

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        return JSONResponse(_first_of(error.errors()).model_dump(), 422)

    @app.exception_handler(HTTPException)
    async def failed(request: Request, error: HTTPException) -> Response:
        return JSONResponse(schemas.Problem(message=error.detail).model_dump(), error.status_code, error.headers)


def _first_of(errors: Any) -> schemas.Problem:
    where = ".".join(str(part) for part in errors[0]["loc"] if part != "body")
    return schemas.Problem(message=f"{where}: {errors[0]['msg']}" if where else errors[0]["msg"])


def _add_offers(app: FastAPI, service: Service) -> None:
    world = world_of(service.player)

    @app.get("/api/world", responses={403: _PROBLEMS[403]})
    async def describe_world() -> schemas.World:
        """What a page needs to know once."""
        return world

    for name, offer in OFFERS.items():
        app.post(f"/api/{name}", name=name, description=offer.answer.__doc__, responses=_PROBLEMS)(
            _endpoint(service, offer)
        )

    @app.post("/api/gif", responses=_PROBLEMS | {200: {"content": {"image/gif": {}}}}, response_class=Response)
    async def gif(episode: schemas.EpisodeRequest, request: Request) -> Response:
        """An episode as an animation, captioned with its goal."""
        service.charge(request, _GIF_COST)
        player = service.player
        made = await service.compute(lambda: player.film(episode.phrase, play(player, episode)))
        return Response(made, media_type="image/gif")


def _endpoint(service: Service, offer: Offer) -> Callable[..., Any]:
    async def answer(body: BaseModel, request: Request) -> BaseModel:
        service.charge(request, offer.cost)
        return await service.compute(lambda: offer.answer(service.player, body))

    answer.__annotations__ |= {"body": offer.request, "return": offer.reply}
    return answer


def _add_socket(app: FastAPI, service: Service, host: str) -> None:
    @app.websocket("/api/socket")
    async def socket(socket: WebSocket) -> None:
        if not welcome(socket.headers, host) or service.sessions >= MAX_SESSIONS:
            return await socket.close(1008 if service.sessions < MAX_SESSIONS else 1013)
        service.sessions += 1
        bucket = Bucket()
        try:
            await socket.accept()
            while True:
                await socket.send_text(await _reply(service, bucket, await socket.receive_text()))
        except (WebSocketDisconnect, KeyError, RuntimeError):
            pass  # gone, or sent bytes where text belongs
        finally:
            service.sessions -= 1


async def _reply(service: Service, bucket: Bucket, text: str) -> str:
    """The answer to one call. Who calls too often waits: nothing more is read from the socket meanwhile."""
    number = None
    try:
        call = schemas.Call.model_validate_json(text)
        number = call.id
        if call.kind not in OFFERS:
            raise Refused(schemas.Problem(message=f"unknown kind: choose from {', '.join(OFFERS)}"))
        offer = OFFERS[call.kind]
        request = offer.request.model_validate(call.request)
        while wait := bucket.wait(offer.cost):
            await asyncio.sleep(wait)
        reply = await service.compute(lambda: offer.answer(service.player, request).model_dump_json())
        return f'{{"id":{number},"reply":{reply}}}'
    except Refused as error:
        problem = error.problem
    except ValidationError as error:
        problem = _first_of(error.errors())
    except HTTPException as error:
        problem = schemas.Problem(message=error.detail)
    return f'{{"id":{"null" if number is None else number},"problem":{problem.model_dump_json()}}}'
