"""What commands compile is kept for the next one."""

import os
from pathlib import Path

import jax
import pytest
from conftest import THIRDS

from cumulant.commands import programs
from cumulant_paper.starts import start

SETTINGS = ("jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs")


@pytest.fixture
def environment(monkeypatch, tmp_path):
    """As a user's: nobody has told JAX where to keep anything."""
    for name in ("JAX_COMPILATION_CACHE_DIR", "JAX_ENABLE_COMPILATION_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "environ", dict(os.environ))
    held = {name: getattr(jax.config, name) for name in SETTINGS}
    yield os.environ
    for name, value in held.items():
        jax.config.update(name, value)


def test_keep_programs_uses_the_users_cache_folder(environment, tmp_path):
    environment["XDG_CACHE_HOME"] = str(tmp_path)
    programs.keep_programs()
    assert environment["JAX_COMPILATION_CACHE_DIR"] == str(tmp_path / "cumulant")
    assert (tmp_path / "cumulant").is_dir()
    assert jax.config.jax_compilation_cache_dir == str(tmp_path / "cumulant")  # though it was imported before


@pytest.mark.parametrize("said", ["JAX_COMPILATION_CACHE_DIR", "JAX_ENABLE_COMPILATION_CACHE"])
def test_keep_programs_leaves_what_jax_was_told(environment, tmp_path, said):
    environment |= {said: "false", "XDG_CACHE_HOME": str(tmp_path)}
    programs.keep_programs()
    assert environment.get("JAX_COMPILATION_CACHE_DIR", "false") == "false"
    assert not list(tmp_path.iterdir())


def test_keep_programs_keeps_nothing_without_a_folder(environment, tmp_path):
    (tmp_path / "file").write_text("")
    environment["XDG_CACHE_HOME"] = str(tmp_path / "file")
    programs.keep_programs()
    assert "JAX_COMPILATION_CACHE_DIR" not in environment


def test_keep_programs_removes_the_oldest_first(environment, tmp_path, monkeypatch):
    monkeypatch.setattr(programs, "_MOST_BYTES", 50)
    environment["XDG_CACHE_HOME"] = str(tmp_path)
    kept = tmp_path / "cumulant"
    kept.mkdir()
    for age in range(6):
        (kept / f"{age}").write_bytes(b"x" * 10)
        os.utime(kept / f"{age}", (1000 - age, 1000 - age))
    programs.keep_programs()
    assert sorted(path.name for path in kept.iterdir()) == ["0", "1", "2", "3"]
    is_file = Path.is_file  # and now another command removes each just after this one has found it
    monkeypatch.setattr(Path, "is_file", lambda path: is_file(path) and not path.unlink())
    programs._prune(kept)
    assert not list(kept.iterdir())


def test_solve_compiles_few_programs_and_keeps_them(tmp_path):
    command = ["solve", "square left", "--library", str(THIRDS), "--episodes", "3"]
    assert start(command, str(tmp_path)).programs <= 4  # keys, weights, episodes; and none for every small array
    assert any(path.name.startswith("jit_rollouts") for path in (tmp_path / "cumulant").iterdir())
