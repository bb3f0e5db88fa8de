"""The socket: calls in, answers out, one after the other; and a queue in front of it."""

import asyncio

from fastapi import WebSocket, WebSocketDisconnect
from pydantic import ValidationError
from starlette.exceptions import HTTPException

from cumulant.web import schemas
from cumulant.web.api import OFFERS, Refused
from cumulant.web.complaints import first_of
from cumulant.web.guard import Bucket
from cumulant.web.service import Service

_AHEAD = 4  # calls that are read while one is being answered, or while the caller queues
_NEWS_SECONDS = 2.0  # between two looks at the queue
_IDLE_SECONDS = 120.0  # without a call; a page opens another socket when it needs one
_SEND_SECONDS = 10.0  # for an answer to be taken
# Gone, or sent bytes where text belongs (KeyError), or did not read: how a socket may end. All else is a fault of ours.
_ENDS = (WebSocketDisconnect, KeyError, RuntimeError, OSError, TimeoutError, asyncio.CancelledError, type(None))


async def attend(service: Service, socket: WebSocket) -> None:
    """Serve a viewer until one of the two has had enough."""
    await socket.accept()
    if service.seats.full:
        return await socket.close(1013, f"{service.seats.seats} people are watching, and the queue is full: try later")
    inbox: asyncio.Queue[str] = asyncio.Queue(_AHEAD)
    both = [asyncio.create_task(_listen(socket, inbox)), asyncio.create_task(_serve(service, socket, inbox))]
    try:
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in both:
            each.cancel()
        ends = await asyncio.gather(*both, return_exceptions=True)
    for end in ends:
        if not isinstance(end, _ENDS):
            raise end


async def _listen(socket: WebSocket, inbox: asyncio.Queue[str]) -> None:
    while True:
        await inbox.put(await socket.receive_text())


async def _serve(service: Service, socket: WebSocket, inbox: asyncio.Queue[str]) -> None:
    ticket, bucket = service.seats.join(), Bucket()
    try:
        await _queue(service, socket, ticket)
        while True:
            text = await asyncio.wait_for(inbox.get(), _IDLE_SECONDS)
            await asyncio.wait_for(socket.send_text(await reply(service, bucket, text)), _SEND_SECONDS)
    except TimeoutError:
        await asyncio.wait_for(socket.close(1001, "nothing was asked for a while"), _SEND_SECONDS)
    finally:
        service.seats.leave(ticket)


async def _queue(service: Service, socket: WebSocket, ticket: asyncio.Future[None]) -> None:
    """Wait for a seat, and tell the viewer how many are before."""
    told = 0
    while place := service.seats.place(ticket):
        if place != told:
            message = f"{service.seats.seats} people are watching: you are number {place} in the queue"
            await asyncio.wait_for(socket.send_text(_told(None, schemas.Problem(message=message))), _SEND_SECONDS)
            told = place
        await asyncio.wait({ticket}, timeout=_NEWS_SECONDS)


async def reply(service: Service, bucket: Bucket, text: str) -> str:
    """The answer to one call. Who calls too often waits: little more is read from the socket meanwhile."""
    number = None
    try:
        call = schemas.Call.model_validate_json(text)
        number = call.id
        if call.kind not in OFFERS:
            raise Refused(schemas.Problem(message=f"unknown kind: choose from {', '.join(OFFERS)}"))
        offer = OFFERS[call.kind]
        request = offer.request.model_validate(call.request)
        while wait := bucket.wait(offer.cost_of(request)):
            await asyncio.sleep(wait)
        answer = await service.compute(lambda: offer.answer(service.player, request).model_dump_json())
        return f'{{"id":{number},"reply":{answer}}}'
    except Refused as error:
        problem = error.problem
    except ValidationError as error:
        problem = first_of(error.errors())
    except HTTPException as error:
        problem = schemas.Problem(message=error.detail)
    return _told(number, problem)


def _told(number: int | None, problem: schemas.Problem) -> str:
    return f'{{"id":{"null" if number is None else number},"problem":{problem.model_dump_json()}}}'
