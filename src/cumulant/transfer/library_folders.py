"""Libraries as folders: what is written, and what of it is believed when it is read.

config.json describes the world, the features and the settings, and vouches for weights.safetensors and itself;
measures.json, which vouches for itself and may be missing, holds what is known beside (`records`); README.md is the
card, which nobody reads back; encoder/ holds learnt features. config.json is written last: a folder that has one is
whole, and a record that was written before it counts only beside the weights that it names.
"""

import dataclasses
import os
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Float
from msgspec import Meta, Struct

from cumulant import storage
from cumulant.config import FreePlay, Share, restored
from cumulant.features.coordinates import (
    Features,
    Learnt,
    Rotation,
    entangled_features,
    feature_count,
    true_features,
)
from cumulant.features.encoder import Encoder
from cumulant.freeplay.networks import Network
from cumulant.storage import Unreadable, write_whole
from cumulant.transfer import records
from cumulant.transfer.records import Record
from cumulant.worlds import shipped
from cumulant.worlds.protocol import World

FORMAT = 2
CARD = "README.md"
_MARK = "<!-- The card of a library of Cumulant, written from its other files: what is changed here is lost. -->"
_CARD_BYTES = 2**20  # at most
DIGITS = 4  # of how far skills move features, as config.json keeps it
_ENCODER = "encoder"  # the folder of learnt features inside a library's own


class _Config(Struct, forbid_unknown_fields=True):
    """What config.json says of a library."""

    format: int
    world: dict[str, Any]
    features: str
    free_play: dict[str, Any]
    sha256: str  # of the weights
    moved: tuple[tuple[Share, ...], ...] | None = None
    tremble: tuple[Annotated[float, Meta(ge=0, lt=1)], ...] = ()


class Stored(NamedTuple):
    """What a folder says of a library, but for its weights."""

    world: World
    config: FreePlay
    features: Features
    moved: Float[Array, "d d"] | None
    tremble: tuple[float, ...]
    weights: str  # their checksum


class Measured(NamedTuple):
    """What was measured at a run's end, without any reward."""

    moved: Float[Array, "d d"] | None  # how far each feature's skills move every other
    tremble: tuple[float, ...]  # of the world's own features


def write(
    folder: Path,
    world: World,
    config: FreePlay,
    features: Features,
    network: Network,
    measured: Measured,
    record: Record,
    card: str,
) -> None:
    """Write a library, with its encoder if it has one, and a card, unless there is a README.md of another kind."""
    if isinstance(features, Encoder):
        features.save(encoder_folder(folder))
    moved, tremble = measured
    found = {} if moved is None else {"moved": np.asarray(moved, float).round(DIGITS).tolist()}
    found |= {"tremble": list(tremble)} if tremble else {}
    records.write(folder, record)
    write_card(folder, card)
    storage.write(folder, network, describe(world, config, features) | found)


def write_card(folder: Path, card: str) -> None:
    """Write README.md, unless there is one that is no card."""
    if owns_card(folder):
        write_whole(folder / CARD, f"{_MARK}\n{card}".encode())


def owns_card(folder: Path) -> bool:
    """Whether README.md is a card, or none is there."""
    if not os.path.lexists(folder / CARD):
        return True
    try:
        return storage.read_plain(folder, CARD, _CARD_BYTES).startswith(_MARK.encode())
    except Unreadable:
        return False


def written_card(folder: Path) -> Path | None:
    """Where the card is, if there is one."""
    path = folder / CARD
    return path if os.path.lexists(path) and owns_card(folder) else None


def forget(folder: Path) -> None:
    """Remove the record and the card of a library that is to be overwritten."""
    with storage.in_one_line(folder):
        if owns_card(folder):
            (folder / CARD).unlink(missing_ok=True)
        (folder / records.MEASURES).unlink(missing_ok=True)


def read(path: Path, world: World | None, features: Features | None) -> Stored:
    """What a folder says. A world or features that it cannot bring must be given. Unreadable if anything is wrong."""
    info = storage.read_info(path)
    if info.get("format") != FORMAT:
        raise Unreadable(f"{path} is not a skill library that this version reads")
    try:
        stored = restored(_Config, info)
        config = FreePlay(**stored.free_play)
        known = world or shipped.restore(stored.world)
    except (TypeError, ValueError) as error:
        raise Unreadable(f"{path / 'config.json'} is not valid: {error}") from None
    if known is None:
        kind = stored.world.get("kind")
        raise Unreadable(f"{path} was made in a world of kind {kind!r}: give that world to load it")
    if shipped.describe(known) != stored.world:
        raise Unreadable(f"{path} was made in another world: {stored.world}")
    try:
        used = _stored_features(path, stored.features, known, features)
        check_features(used, known)
    except ValueError as error:
        raise Unreadable(f"{path}: {error}") from None
    if len(stored.tremble) not in (0, len(known.feature_names)):
        raise Unreadable(f"{path / 'config.json'} is not valid: tremble has {len(stored.tremble)} numbers")
    moved, number = stored.moved, feature_count(used, known)
    if moved is not None and [len(row) for row in moved] != [number] * number:
        raise Unreadable(f"{path / 'config.json'} is not valid: moved is no table of {number} by {number}")
    table = None if moved is None else jax.device_put(np.array(moved, np.float32))
    return Stored(known, config, used, table, stored.tremble, stored.sha256)


def describe(world: World, config: FreePlay, features: Features) -> dict[str, Any]:
    """A library but for its weights, as JSON holds it."""
    return {
        "format": FORMAT,
        "world": shipped.describe(world),
        "features": features_name(features),
        "free_play": dataclasses.asdict(config),
    }


def encoder_folder(library: Path) -> Path:
    """Where a library's folder keeps its encoder."""
    return library / _ENCODER


def check_features(features: Features, world: World) -> None:
    """ValueError for features that were learnt in another world, or that are none of what this world shows."""
    if not callable(features):
        raise ValueError(f"features are a function of the observation, not {features!r}")
    if isinstance(features, Learnt) and features.world != world:
        raise ValueError(f"these features were learnt in another world: {features.world}")
    feature_count(features, world)


def features_name(features: Features) -> str:
    """What a folder says of features: how to make them, or, of somebody's own, whose they are."""
    if features is true_features:
        return "true"
    if isinstance(features, Rotation):
        return f"entangled:{features.seed}"
    if isinstance(features, Encoder):
        return f"learnt:{_ENCODER}"
    own = features if hasattr(features, "__qualname__") else type(features)
    return f"{own.__module__}:{own.__qualname__}"


def _stored_features(path: Path, name: str, world: World, given: Features | None) -> Features:
    """The features that a folder brings, or those given where it brings none."""
    kind, _, seed = name.partition(":")
    own = name in ("true", f"learnt:{_ENCODER}") or (kind == "entangled" and seed.isdecimal())
    if own and given is not None:
        raise Unreadable(f"{path} brings its own features, {name!r}: give none")
    if name == "true":
        return true_features
    if name == f"learnt:{_ENCODER}":
        if encoder_folder(path).is_symlink():
            raise Unreadable(f"{encoder_folder(path)} is a link: a library brings its encoder itself")
        return Encoder.load(encoder_folder(path))
    if own:
        return entangled_features(len(world.feature_names), int(seed))
    if given is None:
        raise Unreadable(
            f"{path} was made with the features {name!r}, which a folder cannot bring: give them to load it"
        )
    return given
