"""Who may ask, how much and how often; connections that misbehave, viewers that queue; and how the server ends."""

import contextlib
import json
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from cumulant.commands.cli import main
from cumulant.web import connections, guard, service
from cumulant.web.guard import HEADERS, MAX_BYTES, Bucket, Buckets
from cumulant.web.seats import Seats
from cumulant.web.server import create_app
from web_server import PHRASE, ask, serving


def test_every_answer_carries_the_security_headers(client):
    for answer in (client.get("/"), client.get("/main.js"), client.get("/nothing"), client.post("/api/parse")):
        assert {name: answer.headers[name] for name in HEADERS} == HEADERS
    assert "unsafe" not in HEADERS["Content-Security-Policy"]
    assert client.get("/../../etc/passwd").status_code == 404


@pytest.mark.parametrize("headers", [{"Host": "evil.example"}, {"Origin": "http://evil.example"}, {"Origin": "null"}])
def test_other_sites_are_refused(client, address, headers):
    assert client.get("/api/world", headers=headers).status_code == 403
    if "Origin" in headers:
        with (
            pytest.raises(InvalidStatus, match="403"),
            connect(f"ws://{address}/api/socket", origin=headers["Origin"]),
        ):
            pass


def test_our_own_page_is_welcome(address):
    with connect(f"ws://{address}/api/socket", origin=f"http://{address}") as socket:
        assert "reply" in ask(socket, "parse", phrase=PHRASE)


def test_what_is_too_large_is_refused(client, address):
    assert client.post("/api/parse", content=b" " * (MAX_BYTES + 1)).status_code == 413
    with connect(f"ws://{address}/api/socket") as socket:
        socket.send("x" * (MAX_BYTES + 1))
        with pytest.raises(ConnectionClosed) as closed:
            socket.recv()
    assert closed.value.rcvd.code == 1009


def test_a_wrong_method_is_405_and_an_unknown_path_404(client):
    for method, path, allowed in (
        ("GET", "/api/parse", "POST"),
        ("PUT", "/api/world", "GET"),
        ("POST", "/", "GET, HEAD"),
        ("DELETE", "/main.js", "GET, HEAD"),
    ):
        answer = client.request(method, path)
        assert (answer.status_code, answer.headers["Allow"]) == (405, allowed)
        assert {name: answer.headers[name] for name in HEADERS} == HEADERS
    assert client.post("/nothing").status_code == client.get("/api/nothing").status_code == 404


def raw(address, data, source="127.0.0.1"):
    """What comes back for bytes, until the server hangs up."""
    host, port = address.split(":")
    with socket.create_connection((host, int(port)), 30, (source, 0)) as connection:
        connection.sendall(data)
        return b"".join(iter(lambda: connection.recv(65536), b""))


SOCKET = (
    b"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
)


@pytest.mark.parametrize(
    ("status", "lines"),
    [
        (403, b"Host: localhost\r\nOrigin: http://[\r\n"),
        (403, b"Host: localhost\r\nOrigin: \xff\xfe\r\n"),
        (403, b"Host: [\r\n"),
        (403, b"Host: localhost:port\r\n"),
        (403, b"Host: localhost\r\nHost: localhost\r\n"),
        (403, b""),
        (403, b"Host: localhost\r\nnothing\r\n"),
        (403, b"Host: localhost\r\nX: \0\r\n"),
        (403, b"Host: localhost\r\nContent-Length: many\r\n"),
        (403, b"Host: localhost\r\nOrigin: http://[\r\n" + SOCKET),
        (403, b"Host: localhost\r\n" + SOCKET.replace(b"==", b"")),
        (403, b"Host: localhost\r\nX: " + b"x" * 20_000 + b"\r\n" + SOCKET),
        (404, b"Host: localhost\r\n" + SOCKET),
    ],
)
def test_no_header_breaks_the_server(address, status, lines):
    path = b"/elsewhere" if status == 404 else b"/api/socket" if b"Upgrade" in lines else b"/api/world"
    ending = b"" if b"Upgrade" in lines else b"Connection: close\r\n"
    answer = raw(address, b"GET " + path + b" HTTP/1.1\r\n" + ending + lines + b"\r\n")
    assert answer.startswith(b"HTTP/1.1 %d " % status)
    for name, value in HEADERS.items():
        assert f"{name}: {value}".lower().encode() in answer.lower()


def test_what_is_no_http_is_told_so(address):
    assert raw(address, b"\x16\x03\x01\r\n\r\n").startswith(b"HTTP/1.1 400 ")


def test_silent_and_slow_clients_shut_nobody_out(player, monkeypatch):
    monkeypatch.setattr(connections, "_REQUEST_SECONDS", 2.0)
    monkeypatch.setattr(connections, "_REFUSED_SECONDS", 0.2)
    ask = b"GET /api/world HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    with serving(create_app(player, warm_up=False)) as address, contextlib.ExitStack() as several:
        host, port = address.split(":")
        silent = [several.enter_context(socket.create_connection((host, int(port)), 10)) for _ in range(140)]
        silent[0].sendall(b"GET /api/world HTTP/1.1\r\nHost:")
        assert raw(address, ask, "127.0.0.2").startswith(b"HTTP/1.1 200 ")
        time.sleep(0.5)  # those that are over the limit have been turned away, the others not yet
        refused = raw(address, ask)
        assert refused.startswith(b"HTTP/1.1 429 ")
        assert b"too many connections from your address" in refused
        assert silent[0].recv(65536).startswith(b"HTTP/1.1 408 ")
        time.sleep(0.5)
        assert raw(address, ask).startswith(b"HTTP/1.1 200 ")


def test_a_socket_too_many_of_an_address_is_told_to_try_later(player, monkeypatch):
    monkeypatch.setattr(connections, "PER_ADDRESS", 2)
    with serving(create_app(player, warm_up=False)) as address, contextlib.ExitStack() as several:
        for _ in range(2):
            several.enter_context(connect(f"ws://{address}/api/socket"))
        with connect(f"ws://{address}/api/socket") as third, pytest.raises(ConnectionClosed) as closed:
            third.recv()
        assert closed.value.rcvd.code == 1013


def test_viewers_over_the_limit_queue_and_are_served_in_turn(player, monkeypatch):
    monkeypatch.setattr(service, "Seats", lambda: Seats(1, 2))
    monkeypatch.setattr("cumulant.web.socket._NEWS_SECONDS", 0.05)
    with serving(create_app(player, warm_up=False)) as address:
        url = f"ws://{address}/api/socket"
        with connect(url) as seated, contextlib.ExitStack() as leaving:
            assert "reply" in ask(seated, "parse", phrase=PHRASE)
            first, last = leaving.enter_context(connect(url)), leaving.enter_context(connect(url))
            for number, viewer in ((1, first), (2, last)):
                told = json.loads(viewer.recv())
                assert told["id"] is None
                assert told["problem"]["message"] == f"1 people are watching: you are number {number} in the queue"
            with connect(url) as turned_away, pytest.raises(ConnectionClosed) as closed:
                turned_away.recv()
            assert closed.value.rcvd.code == 1013
            first.close()
            assert "number 1 in the queue" in json.loads(last.recv())["problem"]["message"]
            last.send(json.dumps({"id": 7, "kind": "parse", "request": {"phrase": PHRASE}}))
            seated.close()
            assert json.loads(last.recv(timeout=10))["id"] == 7


def test_a_socket_that_never_asks_is_closed(player, monkeypatch):
    monkeypatch.setattr("cumulant.web.socket._IDLE_SECONDS", 0.2)
    with (
        serving(create_app(player, warm_up=False)) as address,
        connect(f"ws://{address}/api/socket") as idle,
        pytest.raises(ConnectionClosed) as closed,
    ):
        idle.recv(timeout=10)
    assert closed.value.rcvd.code == 1001


def test_a_bucket_lets_a_burst_through_and_then_a_steady_stream():
    now = [0.0]
    bucket = Bucket(lambda: now[0])
    assert bucket.wait(400) == 0
    assert bucket.wait(30) == pytest.approx(0.5)
    now[0] = 0.5
    assert bucket.wait(30) == 0
    buckets = Buckets()
    for i in range(3000):
        buckets.of(str(i))
    assert len(buckets.known) == 1024


def test_who_asks_too_often_is_told_to_wait(client, monkeypatch):
    monkeypatch.setattr(guard, "_BURST", 0.0)
    monkeypatch.setattr(guard, "_RATE", 0.5)
    answer = client.post("/api/parse", json={"phrase": PHRASE})
    assert answer.status_code == 429
    assert int(answer.headers["Retry-After"]) >= 1


@pytest.fixture
def serve():
    """The real command in a process of its own, which does not outlive the test."""
    command = [sys.executable, "-m", "cumulant", "serve", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        overdue = threading.Timer(60, server.kill)
        overdue.start()
        yield server
        overdue.cancel()
        server.kill()


def test_serve_stops_quietly_before_it_is_up(serve):
    time.sleep(3)
    serve.send_signal(signal.SIGINT)
    _, err = serve.communicate(timeout=30)  # where programs come from the cache, it may have been up after all
    assert serve.returncode in (0, 130)
    assert err == ""


def test_serve_stops_quietly_with_a_viewer_connected(serve):
    address = serve.stdout.readline().split("http://")[1].split()[0]
    with connect(f"ws://{address}/api/socket", open_timeout=30) as socket:
        assert "reply" in ask(socket, "episode", phrase=PHRASE)
        serve.send_signal(signal.SIGTERM)
        out, err = serve.communicate(timeout=30)
    assert (serve.returncode, out, err) == (0, "", "")


def test_a_port_in_use_and_a_missing_extra_are_said_in_one_line(capsys, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["serve", "--port", str(port)]) == 2
    assert capsys.readouterr().err == f"cumulant: cannot listen on 127.0.0.1 port {port}: Address already in use\n"
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    monkeypatch.delitem(sys.modules, "cumulant.web.connections")
    assert main(["serve", "--port", "0"]) == 2
    assert capsys.readouterr().err == "cumulant: the page needs uvicorn: pip install 'cumulant[web]'\n"
