"""Cumulant: play freely once, with no reward; then act on any goal at once, in words or as a reward."""

import lazy_loader

_lazy, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)  # JAX takes seconds; `cumulant --help` should not


def __getattr__(name: str) -> object:
    """Import a public name, which `__init__.pyi` lists, when it is first used."""
    if name == "__version__":
        from importlib import metadata  # which takes longer than all else here

        return metadata.version("cumulant")
    return _lazy(name)
