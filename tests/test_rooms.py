"""The house's order: each room imports only from those before it, and only a few may know Spriteworld."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import cumulant

HOUSE = Path(cumulant.__file__).parent
BOTTOM = ("config", "storage")  # small enough to be files
ROOMS = (*BOTTOM, "goals", "worlds", "features", "freeplay", "transfer", "sweeps", "web", "commands")
MODULES = sorted(path for path in HOUSE.rglob("*.py") if path.parent != HOUSE or path.stem in BOTTOM)
# Spriteworld with all that is its own; whoever else needs a world asks for what every world offers.
SPRITEWORLD = {f"cumulant.worlds.{name}" for name in ("spriteworld", "pixels", "shapes", "renderer", "oracle")}
MAY_KNOW_IT = ("worlds/", "sweeps/", "commands/inputs.py", "commands/represent.py")
MAY_NOT = ("worlds/protocol.py", "worlds/episodes.py", "worlds/films.py")  # of their room: they are for any world


def imported(path: Path) -> Iterator[str]:
    """Every module of ours that a file imports, wherever in it; of `from a import b`, both a and a.b."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path} imports relatively"
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def room_of(path: Path) -> str:
    return path.relative_to(HOUSE).with_suffix("").parts[0]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(HOUSE)))
def test_a_module_imports_only_from_its_room_and_the_ones_before(path):
    before = ROOMS[: ROOMS.index(room_of(path)) + 1]
    rooms = {name.split(".")[1] for name in imported(path) if name.startswith("cumulant.")}
    assert rooms <= set(before), path
    name = str(path.relative_to(HOUSE))
    if not name.startswith(MAY_KNOW_IT) or name in MAY_NOT:
        assert not SPRITEWORLD & set(imported(path)), path


def test_core_imports_nothing_of_the_paper():
    """Imports go one way: `cumulant_paper` is a user of `cumulant` like any other."""
    assert [path for path in HOUSE.rglob("*.py") for name in imported(path) if name.startswith("cumulant_paper")] == []


def test_every_room_is_known_and_says_what_lives_there():
    found = {path.parent.name for path in HOUSE.glob("*/__init__.py")} | set(BOTTOM)
    assert found == set(ROOMS)
    for room in ROOMS[len(BOTTOM) :]:
        text = ast.get_docstring(ast.parse((HOUSE / room / "__init__.py").read_text()))
        assert len(text.splitlines()) == 3, room
