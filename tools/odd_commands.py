"""Odd command lines, for `attack_commands.py`, and a folder with things that are not what a command hopes for."""

import dataclasses
import json
import os
import shutil
import typing
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

# Each command with what it needs beside the option that is tried, as small as it can be.
SMALL = {
    "demo": ["--episodes", "2"],
    "solve": ["square left", "--episodes", "2"],
    "serve": ["--port", "70000"],
    "explain": ["square left"],
    "represent": "--out new --objects square --size 16 --latents 8 --width 4 --pairs 64 --updates 4 --batch 4 "
    "--restarts 1".split(),
    "pretrain": "--out new --width 8 --num-envs 4 --batch 8 --env-steps 160 --replay 160".split(),
    "evaluate": "--episodes 2 --tasks-per-class 1".split(),
    "inspect": ["--starts", "2"],
    "worlds": [],
    "check": ["--world", "room"],
    "reproduce": ["theorem"],
    "bench": "env --batch 4 --no-peer".split(),
    "sweep": "--grid seed=0 --engine ray --address 127.0.0.1:1 --out new".split(),  # where no cluster is
    "report": ["nowhere"],
}
LARGE = (str(10**11), str(10**30))
NO_INTEGERS = ("", *"x nan inf -inf 2.5 1e11 1e400 -1".split(), str(-(10**30)), *LARGE)
NO_FLOATS: tuple[str, ...] = ("", *"x nan -inf -1 -1e400".split())
TOO_LARGE = ("inf", "1e400", "1e30")
MAY_BE_0 = {
    "seed",
    "starts",
    "few-shot",
    "labelled",
    "switch-every",
    "port",
    "gamma",
    "gpus",
    "beta",
    "checkpoint-seconds",
}
MAY_BE_LARGE = {"beta", "checkpoint-seconds"}  # any number does: the loss, and the clock, will tell
LONG_NAME = "n" * 300
DEVICES = ("/dev/null", "/dev/full", "/dev/null/x", "/sys/x", "/proc/x", "fifo")
NOWHERE = ("", *DEVICES, "file/x", "loop/x", "a\0b", LONG_NAME)
NO_FOLDERS, NO_FILES = (*NOWHERE, "file", "/dev", "/proc", "/sys"), (*NOWHERE, "empty", "/", ".")
OUTPUTS = {
    ("demo", "--out"): NO_FOLDERS,
    ("solve", "--gif"): NO_FILES,
    ("solve", "--trace"): NO_FILES,
    ("represent", "--out"): NO_FOLDERS,
    ("pretrain", "--out"): NO_FOLDERS,
    ("inspect", "--out"): NO_FOLDERS,
    ("reproduce", "--out"): NO_FOLDERS,
    ("sweep", "--out"): NO_FOLDERS,
}
USING_A_LIBRARY = ("demo", "solve", "serve", "evaluate", "inspect")
NO_LIBRARIES = ("", *"nowhere file empty fifo loop garbage /dev/null".split(), "a\0b", "\x1b[2J", "a\nb", LONG_NAME)
ODD_WORDS = ("", " ", "\0", "\x1b[2J", "\r\n", "\u202e", "\udcff", "💥", "--", "-", "'", "left", "(" * 2000)
ODD_PHRASES = (
    "square above circle",
    "square in the corner",
    "the red square left",
    "me left",
    "square",
    "square left\ncircle",
    "square \x1b]0;owned\x07 left",
    "a" * 10**5,
    "square left " * 10**4,
)
NO_HOSTS = ("", "256.1.1.1", "192.0.2.1", "no such host", "a\0b", "\x1b[2J", "http://localhost", "é" * 80, "a" * 70)

OWN = """
import sys
import jax.numpy as jnp
number = 3
def fails(obs): raise RuntimeError("no\\nfeatures\\nhere")
def leaves(obs): sys.exit(0)
def two(obs, more): return obs
def text(obs): return "text"
def nothing(obs): return None
def whole(obs): return (obs > 0).astype(int)
def matrix(obs): return jnp.ones((3, 3))
def not_a_number(obs): return jnp.nan * obs
def sum_not_a_number(obs): return jnp.nan * obs.sum()
def infinite(obs): return jnp.inf + obs.sum()
def python(obs): return 1.0 if obs[0] > 0.5 else 0.0
def strange(obs): return {"a": obs}
def empty(obs): return jnp.zeros(0)
def many(obs): return jnp.zeros(10**7)
def nobody(): return None
class Thing: pass
class Property:
    @property
    def num_actions(self): raise RuntimeError("no\\nactions")
class Step:
    num_actions, max_steps, feature_names = 2, 3, ("dial",)
    def reset(self, key): return jnp.zeros(1)
    def observe(self, state): return state
    def features(self, state): return state
    def step(self, state, action): raise RuntimeError("no step")
class Made:
    def __init__(self): raise RuntimeError("cannot be made")
"""
NO_MODULES = {
    "own_raises": "raise RuntimeError('first\\nsecond')",
    "own_exits": "import sys; sys.exit(0)",
    "own_syntax": "def (:",
    "own_needs": "import no_such_module_anywhere",
    "own_nul": "x = '\0'",
}
NO_NAMES = "own own: :fails : own:nowhere own:number ..own:fails own.more:f nowhere:f a\0b:f own:a\0b \x1b[2J:f".split()
NO_NAMES += [f"{module}:f" for module in NO_MODULES]
NO_WORLDS = [f"own:{name}" for name in "nobody Thing Property Step Made number nowhere".split()]
NO_WORLDS += [
    "",
    " ",
    ":",
    "own:",
    "nope",
    "a\0b",
    "\x1b[2J",
    "json:loads",
    "gymnasium:",
    "gymnasium:CartPole-v1",
    LONG_NAME,
]
NO_FUNCTIONS = [f"own:{name}" for name in "fails leaves two text nothing matrix python strange empty".split()]


class Case(NamedTuple):
    """Arguments, and what is known of them beforehand."""

    args: tuple[str, ...]
    fine: bool = False  # there is nothing wrong with them
    without: str = ""  # a module that is not installed


def cases() -> list[Case]:
    """All of them, each once."""
    found = [
        *numbers(),
        *misspelt(),
        *outputs(),
        *libraries(),
        *functions(),
        *worlds(),
        *words(),
        *hosts(),
        *runs(),
        *fine(),
    ]
    return list(dict.fromkeys(found))


def options() -> Iterator[tuple[str, str, Any]]:
    """(command, option without its dashes, type) for every option there is, read from what the parser reads."""
    from cumulant.commands import cli

    for entry in typing.get_args(cli._commands([])):
        kind, about = typing.get_args(entry)
        yield from ((about.name, name, of) for name, of in _fields(kind))


def _fields(kind: type) -> Iterator[tuple[str, Any]]:
    for name, of in typing.get_type_hints(kind).items():
        if dataclasses.is_dataclass(of):
            yield from _fields(typing.cast(type, of))  # whose options have no prefix
        else:
            yield name.replace("_", "-"), of


def numbers() -> Iterator[Case]:
    """Every numeric option, given as what it cannot be; and sizes that no machine has room for."""
    for command, option, kind in options():
        wrong: tuple[str, ...] = ()
        if int in (kind, *typing.get_args(kind)):
            wrong = NO_INTEGERS
        elif kind is float:
            wrong = NO_FLOATS if option in MAY_BE_LARGE else NO_FLOATS + TOO_LARGE
        if wrong and option not in MAY_BE_0:
            wrong += ("0",)
        yield from (Case((command, *SMALL[command], f"--{option}", value)) for value in wrong)
    for size in ("0", "-1", *LARGE):
        yield Case(("bench", "render", "--no-peer", "--size", size))
        yield Case(("bench", "render", "--no-peer", "--batch", size))
        yield Case(("bench", "pretrain", "--batch", size))
    yield Case(("pretrain", "--out", "new", "--batch", str(2**31 - 1), "--width", "16384"))
    yield Case(("represent", "--out", "new", "--pairs", str(10**9)))


def misspelt() -> Iterator[Case]:
    """Commands and options that are not there, or not of this command, or not all that is needed."""
    known = {command: {name for of, name, _ in options() if of == command} for command in SMALL}
    everything = sorted(set().union(*known.values()))
    for command, small in SMALL.items():
        yield Case((command[:-1],))
        yield Case((command.upper(), *small))
        for more in ("--nonsense", "--nonsense 1", "one too many", "--json=maybe", "--no-json"):
            yield Case((command, *small, *more.split()))
        foreign = [name for name in everything if name not in known[command]]
        yield from (Case((command, *small, f"--{name}", "1")) for name in foreign[:: max(1, len(foreign) // 4)])
    for environment in ("Nope-v0", "nope:Nope-v0", "Nope", "a b", "Blackjack-v1"):
        yield Case(("bench", "host", "--environment", environment))
    for args in ("", "--nonsense", "-x", "solve solve", "--version solve", "explain", "bench", "reproduce"):
        yield Case(tuple(args.split()))
    for args in ("bench every", "reproduce nothing", "evaluate --suite none", "solve x --gpi none", "\0", "\x1b[2J"):
        yield Case(tuple(args.split(" ")))
    for args in ("--only nothing", "--redraw", "--redraw --only dqn"):
        yield Case(("reproduce", "fig4", *args.split()))
    for args in ("--look none", "--learner none", "--latents 7"):
        yield Case(("represent", "--out", "new", *args.split()))
    for args in ("--preset none", "--network none", "--resume --force"):
        yield Case(("pretrain", *args.split()))


def outputs() -> Iterator[Case]:
    """Places that cannot be written to."""
    for (command, option), places in OUTPUTS.items():
        small = [word for word in SMALL[command] if word not in ("--out", "new")]
        yield from (Case((command, *small, option, place)) for place in places)
    yield Case(("solve", "square left", "--gif", "same.gif", "--trace", "./same.gif"))
    yield Case(("solve", "square left", "--gif", "mine.png"))
    yield Case(("pretrain", "--out", "on-the-way/../file"))
    yield Case(("represent", "--out", "taken", *SMALL["represent"][2:]))
    yield Case(("demo", *SMALL["demo"], "--out", "in-the-way"))
    yield Case(("inspect", *SMALL["inspect"], "--out", "in-the-way"))
    yield Case(("reproduce", "theorem", "--out", "in-the-way"))


def libraries() -> Iterator[Case]:
    """Folders that hold no library."""
    for command in USING_A_LIBRARY:
        yield from (Case((command, *_harmless(command), "--library", folder)) for folder in NO_LIBRARIES)
    yield Case(("evaluate", "--library", "taken", "nowhere"))
    yield Case(("evaluate", "--library", "taken", "--objects", "square"))
    yield Case(("evaluate", "--library", "taken", "--library=taken"))


def _harmless(command: str) -> list[str]:
    """What a command needs, and nothing that is wrong by itself."""
    return ["--port", "0"] if command == "serve" else SMALL[command]


def functions() -> Iterator[Case]:
    """Features and rewards that are none."""
    for name in (*NO_NAMES, *NO_FUNCTIONS):
        yield Case(("pretrain", *SMALL["pretrain"], "--features", name))
        yield Case(("solve", "--reward", name, "--episodes", "2"))
        yield Case(("solve", "square left", "--library", "made-with-own", "--features", name))
    for name in ("own:not_a_number", "own:whole"):
        yield Case(("pretrain", *SMALL["pretrain"], "--features", name))
        yield Case(("demo", "--library", "made-with-own", "--features", name))
    yield Case(("pretrain", *SMALL["pretrain"], "--features", "own:many"))
    for name in ("own:sum_not_a_number", "own:infinite"):
        yield Case(("solve", "--reward", name))
    for name in ("entangled:", "entangled:x", "entangled:-1", "learnt:", "learnt:nowhere", "learnt:file"):
        yield Case(("pretrain", *SMALL["pretrain"], "--features", name))
    for command in USING_A_LIBRARY:
        yield Case((command, *_harmless(command), "--features", "own:fails"))  # what ships brings its own


def worlds() -> Iterator[Case]:
    """Worlds that are none, or not of this library; and parameters that a world has not, or that cannot be."""
    for name in NO_WORLDS:
        yield Case(("evaluate", "--world", name))
        yield Case(("explain", "dial low", "--world", name))
        yield Case(("pretrain", *SMALL["pretrain"], "--world", name))
        yield Case(("solve", "square left", "--library", "taken", "--world", name))
    for given in ("room", "nope", "spriteworld --world.objects star"):
        yield Case(("solve", "square left", "--library", "taken", "--world", *given.split()))
    for given in ("room --world.nope 1", "room --world.max_steps -1", "room --world.max_steps x"):
        yield Case(("evaluate", "--world", *given.split()))
    for given in (
        "objects blob",
        "objects square,square",
        "step_size nan",
        "step_size",
        "max_steps 1e11",
        "half_extent 2",
    ):
        yield Case(("evaluate", "--world", "spriteworld", *f"--world.{given}".split()))
    yield Case(("evaluate", "--world.max_steps", "3"))
    yield Case(("evaluate", "--world", "room", "--objects", "square"))
    yield Case(("check", "--features", "own:text"))
    yield Case(("explain", "square left", "--features", "own:text"))


def words() -> Iterator[Case]:
    """Phrases and names that are none."""
    for word in (*ODD_WORDS, *ODD_PHRASES):
        yield Case(("explain", word))
        yield Case(("solve", word))
    for word in ODD_WORDS:
        yield Case(("explain", "square left", "--objects", word))
    for word in ("", "\0", "\x1b[2J", "\udcff", "a\nb", LONG_NAME):
        yield Case(("evaluate", "--objects", word))
        yield Case(("evaluate", "--suite", word))
        yield Case(("represent", *SMALL["represent"], "--look", word))
        yield Case(("reproduce", "fig4", "--only", word))
    yield Case(("explain", "square left", "--objects", "square", "square"))
    yield Case(("explain", "square left", "--objects"))
    yield Case(("solve", "square left", "--reward", "own:python"))


def hosts() -> Iterator[Case]:
    """Addresses that nobody can listen on."""
    for port in ("-1", "65536", "70000", "x", "", "1e3", "0.5"):
        yield Case(("serve", "--port", port))
    for host in NO_HOSTS:
        yield Case(("serve", "--port", "0", "--host", host))


def runs() -> Iterator[Case]:
    """Runs that cannot be begun or gone on with, and what is not installed."""
    begin = ("pretrain", *SMALL["pretrain"][2:], "--out")
    for out in ("nowhere", "empty", "file", "fifo", "taken"):
        yield Case((*begin, out, "--resume"))
    yield Case((*begin, "taken"))
    yield Case((*begin, "in-the-way", "--tensorboard"))
    yield Case((*begin, "empty", "--tensorboard"), without="tensorboardX")
    yield Case(("serve", "--port", "0"), without="uvicorn")
    yield Case(("serve", "--port", "0"), without="fastapi")
    yield Case(("bench", "env"), without="spriteworld")


def fine() -> Iterator[Case]:
    """What looks odd, and is not."""
    for args in (("--version",), ("--help",), *((command, "--help") for command in SMALL)):
        yield Case(args, fine=True)
    for phrase in ("SQUARE LEFT", "square left.", "\tsquare\u2003left", "square x 1/99", "the a to square in left"):
        yield Case(("explain", phrase), fine=True)
    yield Case(("explain", "square left", "--objects", "square", "--json"), fine=True)


def furnish(place: Path) -> None:
    """Put into a folder what the odd command lines speak of."""
    (place / "empty").mkdir()
    (place / "file").write_text("a plain file")
    os.mkfifo(place / "fifo")
    (place / "loop").symlink_to("loop")
    (place / "garbage").mkdir()
    (place / "garbage" / "config.json").write_text('{"format": 2, "world": []}')
    for name in ("demo.gif", "audit.png", "theorem.json"):
        (place / "in-the-way" / name).mkdir(parents=True)
    (place / "in-the-way" / "tensorboard").write_text("")
    for name, text in {"own": OWN, **NO_MODULES}.items():
        (place / f"{name}.py").write_text(text)
    shipped = str(resources.files("cumulant") / "shipped")
    for name in ("taken", "made-with-own"):
        shutil.copytree(shipped, place / name)
    _claim_own_features(place / "made-with-own" / "config.json")


def _claim_own_features(path: Path) -> None:
    from cumulant.storage import seal_of

    info = {**json.loads(path.read_text()), "features": "own:features"}
    info.pop("seal", None)
    path.write_text(json.dumps(info | {"seal": seal_of(info)}))
