"""Cumulant: play freely once, with no reward; then act on any goal at once, in words or as a reward."""

import lazy_loader

__version__ = "0.3.0.dev0"  # pyproject.toml reads it here, so that a source folder knows it without being installed
# The names of `__init__.pyi`, each imported when it is first used: JAX takes seconds; `cumulant --help` should not.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
