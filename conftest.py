"""Shared by all tests: Hypothesis without deadlines (compiling takes seconds), and the worlds that tests run in."""

import contextlib
import ctypes
import gc
import os
import resource
import sys
import tempfile
from importlib import metadata
from pathlib import Path

# Tests compile far more than they run, so compile quickly, and each program once for all processes of a run.
_QUICKLY = (
    "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true "
    "--xla_cpu_parallel_codegen_split_count=1 --xla_cpu_enable_concurrency_optimized_scheduler=false"
)
if metadata.version("jaxlib") < "0.11":  # later ones have no such flag, and stop at any that they do not know
    _QUICKLY += " --xla_cpu_use_fusion_emitters=false"
os.environ["XLA_FLAGS"] = f"{_QUICKLY} {os.environ.get('XLA_FLAGS', '')}"
if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
    _compiled = tempfile.TemporaryDirectory(prefix="cumulant-tests-")  # removed when the first process ends
    os.environ["JAX_COMPILATION_CACHE_DIR"] = _compiled.name
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0.05"  # less is compiled as soon as it is read

# Tracing makes objects by the million, of use or gone at once: looking for lost ones took a tenth of the time.
gc.set_threshold(50_000, 20, 20)

from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from jaxtyping import Array, Float

from cumulant.worlds.shapes import SHAPES
from cumulant.worlds.spriteworld import Spriteworld

settings.register_profile("cumulant", deadline=None, derandomize=bool(os.environ.get("CI")), max_examples=30)
settings.load_profile("cumulant")

# A library of three bins, that of version 0.1. It takes a third of the time of the one that ships now.
THIRDS = Path(__file__).parent / "tests" / "golden" / "thirds"

# A few worlds rather than any: each is compiled once.
WORLDS = (Spriteworld(), Spriteworld(SHAPES[::-1]), Spriteworld(("star",), step_size=0.13, half_extent=0.2))
worlds = st.sampled_from(WORLDS)
unit = st.floats(0, 1, width=32)


class SlidersState(NamedTuple):
    """Two positions."""

    place: Float[Array, "2"]


@dataclass(frozen=True)
class Sliders:
    """A probe world with known values: two sliders of four notches each, moved one notch at a time, independently."""

    max_steps: int = 20
    num_actions: int = 5
    feature_names: tuple[str, ...] = ("first_x", "first_y")

    def reset(self, key):
        return SlidersState((jax.random.randint(key, (2,), 0, 4) + 0.5) / 4)

    def step(self, state, action):
        move = jnp.array([(0, 0), (1, 0), (-1, 0), (0, 1), (0, -1)])[action] / 4
        return SlidersState(jnp.clip(state.place + move, 0.125, 0.875))

    def observe(self, state):
        return state.place

    def features(self, state):
        return state.place


# What shares compiled programs shares a process; the longest come first: a process that takes one last keeps the other
# waiting.
_TOGETHER = (
    "web_page web_hands web_layout",
    "representation learnt",
    "web_api web_player web_server same_episode",
    "cli",
    "docs",
    "fuzz trust_runs runs",
    "sweep_ray",
    "sweep report",
    "plan_episodes ways oracle",
    "host gymnasium own_worlds",
    "reproduce experiments",
    "doorkey",
    "docstrings",
    "learning library inference shown cards",
    "language tasks plans",
    "baselines rivals",
)
_GROUPS = {f"test_{name}.py": group for group, names in enumerate(_TOGETHER) for name in names.split()}


def pytest_collection_modifyitems(items):
    """The longest groups first."""
    items.sort(key=lambda item: _GROUPS.get(item.path.name, len(_TOGETHER)))


def pytest_xdist_make_scheduler(config, log):
    """A process takes a whole group, or a whole file of those in none."""
    from xdist.scheduler import LoadScopeScheduling

    class Together(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            file = Path(nodeid.partition("::")[0]).name
            return str(_GROUPS.get(file, file))

    return Together(config, log)


# A laptop of 8 GB runs two processes. The programs that a process compiled are let go of whenever it has grown to
# _GROWN: which of them the next tests want, they read from the cache on disk. Each program takes memory mappings, too.
_GROWN, _MOST_MEMORY, _MOST_MAPPINGS = 1.2e9, 3e9, 30_000  # bytes, bytes, of the 65,530 that Linux allows
_used: dict[str, tuple[float, int]] = {}  # bytes and mappings at most, by process; on Linux alone
_grown = _GROWN


def _measure(config):
    """Record the most memory, of this process or any that it started, and the most mappings."""
    name = getattr(config, "workerinput", {}).get("workerid", "this process")
    kilobytes = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    mappings = Path("/proc/self/maps").read_bytes().count(b"\n")
    _used[name] = 1024 * kilobytes, max(mappings, _used.get(name, (0, 0))[1])


def _resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item):
    """Let go of compiled programs where the process has grown."""
    global _grown  # noqa: PLW0603
    if sys.platform == "linux" and _resident() > _grown:
        _measure(item.config)
        jax.clear_caches()
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)  # or the C library keeps two thirds of it
        _grown = max(
            _GROWN, _resident() + _GROWN / 2
        )  # what is in use stays, and is not looked through after each test


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    """Take over what a process measured, unless it died."""
    _used.update(getattr(node, "workeroutput", {}).get("used", {}))


def pytest_sessionfinish(session):
    """Fail if a process took too much. What is left is no rubbish: pytest would look through all of it five times."""
    gc.freeze()
    if sys.platform == "linux" and not session.config.getoption("numprocesses", None):
        _measure(session.config)
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["used"] = _used
    elif any(memory > _MOST_MEMORY or mappings > _MOST_MAPPINGS for memory, mappings in _used.values()):
        session.exitstatus = session.exitstatus or pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter):
    for name, (memory, mappings) in sorted(_used.items()):
        terminalreporter.write_line(
            f"{name}: at most {memory / 1e9:.2f} GB and {mappings:,} memory mappings "
            f"(more than {_MOST_MEMORY / 1e9:g} GB or {_MOST_MAPPINGS:,} fails)"
        )


@pytest.fixture(scope="session")
def player():
    from web_server import player_in  # only the tests of the web need what it imports

    return player_in("sprites")


@pytest.fixture(scope="session")
def address_of():
    """Serve the page of a world from when it is first asked for."""
    from cumulant.web.server import create_app
    from web_server import player_in, serving

    with contextlib.ExitStack() as servers:
        yield cache(lambda world: servers.enter_context(serving(create_app(player_in(world), warm_up=False))))


@pytest.fixture(scope="session")
def address(address_of):
    return address_of("sprites")


@pytest.fixture(scope="module")
def client(address):
    import httpx

    with httpx.Client(base_url=f"http://{address}", timeout=120) as client:
        yield client


@pytest.fixture(scope="module")
def browser():
    from web_browser import launched

    with launched() as browser:
        yield browser


@pytest.fixture
def visit(browser, address_of):
    from web_browser import visiting

    with visiting(browser, address_of) as open_page:
        yield open_page
