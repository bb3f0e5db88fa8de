"""Whether a folder is what it claims to be."""

import hashlib
import json
from pathlib import Path


def is_whole(folder: Path) -> bool:
    """Whether a folder's arrays are those that its config.json vouches for."""
    try:
        told = json.loads((folder / "config.json").read_text())["sha256"]
        return hashlib.sha256((folder / "weights.safetensors").read_bytes()).hexdigest() == told
    except (OSError, ValueError, KeyError):
        return False


def check_unmixed(folder: Path) -> None:
    """Refuse a folder that claims to be finished, and is not: one with old arrays and a new config.json, say."""
    for config in folder.rglob("config.json"):
        hidden = any(part.startswith(".") for part in config.relative_to(folder).parts)
        if not hidden and "sha256" in json.loads(config.read_text()):
            assert is_whole(config.parent), f"{config.parent} claims to be whole"
