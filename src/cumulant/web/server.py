"""The page and the API behind it. Every offer of the api is a POST request, and a call over the socket."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Collection
from importlib import metadata, resources
from typing import Any

from fastapi import FastAPI, Request, Response, WebSocket
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.staticfiles import StaticFiles
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from cumulant.web import schemas
from cumulant.web.api import OFFERS, Offer, Refused, changes, check_draws, play, world_of
from cumulant.web.complaints import first_of, of_status
from cumulant.web.guard import HEADERS, Guard
from cumulant.web.player import Player
from cumulant.web.service import Service
from cumulant.web.socket import attend

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


def create_app(player: Player, host: str = "127.0.0.1", warm_up: bool = True) -> FastAPI:
    """The application, to be bound to `host`; it compiles in the background unless told not to."""
    service = Service(player)

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        rest = asyncio.create_task(service.warm_up()) if warm_up else None
        yield
        if rest:
            rest.cancel()
        service.stop()

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

    @app.websocket("/api/socket")
    async def socket(socket: WebSocket) -> None:
        await attend(service, socket)

    _add_page(app)
    return app


def _add_problems(app: FastAPI) -> None:
    """Everything that goes wrong is told in the same form."""

    @app.exception_handler(Refused)
    async def refused(request: Request, error: Refused) -> Response:
        return JSONResponse(error.problem.model_dump(), 422)

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        return JSONResponse(first_of(error.errors()).model_dump(), 422)

    @app.exception_handler(HTTPException)
    async def failed(request: Request, error: HTTPException) -> Response:
        problem = of_status(error.status_code, error.detail, error.headers)
        return JSONResponse(problem.model_dump(), error.status_code, error.headers)

    @app.exception_handler(Exception)
    async def broken(request: Request, error: Exception) -> Response:  # a fault of ours, which the log tells
        return JSONResponse(schemas.Problem(message="something went wrong here").model_dump(), 500, HEADERS)


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
        service.charge(request, _GIF_COST * (1 + changes(episode)))
        player = service.player
        check_draws(player)

        def made() -> bytes:
            aim, played = play(player, episode)
            return player.film(episode.phrase, aim.plan, played)

        return Response(await service.compute(made), media_type="image/gif")


def _endpoint(service: Service, offer: Offer) -> Callable[..., Any]:
    async def answer(body: BaseModel, request: Request) -> BaseModel:
        service.charge(request, offer.cost_of(body))
        return await service.compute(lambda: offer.answer(service.player, body))

    answer.__annotations__ |= {"body": offer.request, "return": offer.reply}
    return answer


def _add_page(app: FastAPI) -> None:
    """The page's files, behind everything else; and what was asked for in a way that it does not offer."""
    for route in [route for route in app.routes if isinstance(route, Route)]:  # before the page, which would say 404
        app.router.routes.append(Route(route.path, _WrongMethod(route.methods or ())))
    app.mount("/", _Page(directory=str(resources.files("cumulant.web") / "page"), html=True))


class _WrongMethod:
    """Says which methods a path knows."""

    def __init__(self, methods: Collection[str]):
        self.headers = {"Allow": ", ".join(sorted(methods))}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        raise HTTPException(405, headers=self.headers)


class _Page(StaticFiles):
    """Files, to be read; a file that is not there is not there in any way."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            missing = JSONResponse(schemas.Problem(message="there is no such socket").model_dump(), 404)
            return await missing(scope, receive, send)
        await super().__call__(scope, receive, send)

    async def get_response(self, path: str, scope: Scope) -> Response:
        if scope["method"] in ("GET", "HEAD"):
            return await super().get_response(path, scope)
        await super().get_response(path, {**scope, "method": "HEAD"})
        raise HTTPException(405, headers={"Allow": "GET, HEAD"})
