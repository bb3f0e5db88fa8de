"""The server: whom it refuses, what is too much for it, how it serves many, and how it ends."""

import asyncio
import json
import signal
import socket
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import httpx
import pytest
from websockets.asyncio.client import connect as connect_async
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from cumulant.commands.cli import main
from cumulant.web import server
from cumulant.web.api import OFFERS
from cumulant.web.server import HEADERS, MAX_BYTES, create_app
from web_server import PHRASE, ask, serving


def test_every_answer_carries_the_security_headers(client):
    for answer in (client.get("/"), client.get("/main.js"), client.get("/nothing"), client.post("/api/parse")):
        assert {name: answer.headers[name] for name in HEADERS} == HEADERS
    assert "unsafe" not in HEADERS["Content-Security-Policy"]
    for path in ("/../../etc/passwd", "/..%2fapi.py", "/%00", "/" + 999 * "x"):
        assert client.get(path).status_code == 404


@pytest.mark.parametrize(
    ("status", "headers"),
    [(400, {"Host": "evil.example"}), (403, {"Origin": "http://evil.example"}), (403, {"Origin": "null"})],
)
def test_other_sites_are_refused(client, address, status, headers):
    assert client.get("/api/world", headers=headers).status_code == status
    with (
        pytest.raises(InvalidStatus, match=str(status)),
        connect(f"ws://{address}/api/socket", additional_headers=headers),
    ):
        pass


def test_what_is_too_large_is_refused(client, address):
    answer = client.post("/api/parse", content=b" " * (MAX_BYTES + 1), headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()["message"]) == (413, "a request has at most 65,536 bytes")
    with connect(f"ws://{address}/api/socket") as viewer:
        viewer.send("x" * (MAX_BYTES + 1))
        with pytest.raises(ConnectionClosed) as closed:
            viewer.recv()
    assert closed.value.rcvd.code == 1009


@pytest.mark.parametrize(
    "data", [b"\x16\x03\x01\r\n\r\n", b"GET / HTTP/1.1\r\nHost: [\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n"]
)
def test_what_is_no_request_is_400(address, data):
    host, port = address.split(":")
    with socket.create_connection((host, int(port)), 30) as connection:
        connection.sendall(data)
        assert connection.recv(65536).startswith(b"HTTP/1.1 400 ")


def test_many_viewers_are_served_or_told_to_wait(player, monkeypatch):
    monkeypatch.setattr(server, "VIEWERS", 60)

    async def watch(address, together):
        async with connect_async(f"ws://{address}/api/socket", open_timeout=60) as viewer:
            try:
                await viewer.send(json.dumps({"id": 7, "kind": "parse", "request": {"phrase": PHRASE}}))
                return list(json.loads(await viewer.recv()))
            except ConnectionClosed as closed:
                return closed.rcvd.code, closed.rcvd.reason
            finally:
                await together.wait()  # nobody leaves before all were told

    async def crowd(address):
        together = asyncio.Barrier(100)
        return await asyncio.gather(*(watch(address, together) for _ in range(100)))

    with serving(create_app(player, warm_up=False)) as address:
        told = asyncio.run(crowd(address))
        assert told.count(["id", "reply"]) == 60
        assert told.count((1013, "60 people are watching: try again in a moment")) == 40
        with connect(
            f"ws://{address}/api/socket", origin=f"http://{address}"
        ) as viewer:  # there is room again, for our page
            assert "reply" in ask(viewer, "parse", phrase=PHRASE)


def test_who_comes_when_too_many_wait_is_told_to_try_again(player, monkeypatch):
    monkeypatch.setattr(server, "WAITING", 0)
    with serving(create_app(player, warm_up=False)) as address:
        answer = httpx.post(f"http://{address}/api/parse", json={"phrase": PHRASE})
        assert (answer.status_code, answer.headers["Retry-After"]) == (429, "5")
        with connect(f"ws://{address}/api/socket") as viewer:
            assert ask(viewer, "parse", phrase=PHRASE)["problem"] == answer.json()


def test_closing_a_tab_ends_its_work(player, address, monkeypatch):
    begun, on = [], threading.Event()

    def slow(player, request):
        begun.append(request.phrase)
        on.wait(30)
        return request

    monkeypatch.setitem(OFFERS, "parse", OFFERS["parse"]._replace(answer=slow))
    calls = {name: json.dumps({"id": 7, "kind": "parse", "request": {"phrase": name}}) for name in "abc"}
    url = f"ws://{address}/api/socket"
    with connect(url) as a, connect(url) as b, connect(url) as d:
        a.send(calls["a"])
        b.send(calls["b"])
        while len(begun) < 2:  # both threads compute
            time.sleep(0.01)
        with connect(url) as c:
            c.send(calls["c"])
        assert "problem" in ask(d, "nothing")  # by now the server knows that c has left
        on.set()
        assert "reply" in ask(d, "parse", phrase="d")
    assert sorted(begun) == ["a", "b", "d"]


def test_a_socket_that_never_asks_is_closed(player, monkeypatch):
    monkeypatch.setattr(server, "_IDLE_SECONDS", 0.2)
    with (
        serving(create_app(player, warm_up=False)) as address,
        connect(f"ws://{address}/api/socket") as idle,
        pytest.raises(ConnectionClosed) as closed,
    ):
        idle.recv(timeout=10)
    assert closed.value.rcvd.code == 1001


@pytest.fixture
def serve():
    """The real command in a process of its own, which does not outlive the test."""
    command = [sys.executable, "-m", "cumulant", "serve", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        overdue = threading.Timer(60, running.kill)
        overdue.start()
        yield running
        overdue.cancel()
        running.kill()


def test_serve_stops_quietly_before_it_is_up(serve):
    time.sleep(3)
    serve.send_signal(signal.SIGTERM)
    _, err = serve.communicate(timeout=30)  # where programs come from the cache, it may have been up after all
    assert serve.returncode in (0, 143)
    assert err == ""


def test_serve_stops_quietly_with_a_viewer_connected(serve):
    address = serve.stdout.readline().split("http://")[1].split()[0]
    with connect(f"ws://{address}/api/socket", open_timeout=30) as viewer:
        assert "reply" in ask(viewer, "episode", phrase=PHRASE)
        serve.send_signal(signal.SIGINT)
        out, err = serve.communicate(timeout=30)
    assert (serve.returncode, out, err) == (0, "", "")


def test_others_are_let_in_with_a_word_about_proxies(player, capsys, monkeypatch):
    monkeypatch.setattr("cumulant.web.player.Player", lambda library: player)
    monkeypatch.setattr(server, "server_of", lambda app: SimpleNamespace(run=lambda sockets: None))
    for host, said in (
        ("127.0.0.1", ""),
        ("0.0.0.0", "others can reach the page, and nothing is encrypted; put a proxy"),
    ):
        assert main(["serve", "--host", host, "--port", "0"]) == 0
        out, err = capsys.readouterr()
        assert out.startswith(f"Cumulant is at http://{host}:")
        assert said in err
        assert len(err.splitlines()) == bool(said)


def test_a_port_in_use_and_a_missing_extra_are_said_in_one_line(capsys, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["serve", "--port", str(port)]) == 2
    assert capsys.readouterr().err == f"cumulant: cannot listen on 127.0.0.1 port {port}: Address already in use\n"
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    monkeypatch.delitem(sys.modules, "cumulant.web.server")
    assert main(["serve", "--port", "0"]) == 2
    assert capsys.readouterr().err == "cumulant: the page needs uvicorn: pip install 'cumulant[web]'\n"
