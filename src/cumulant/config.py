"""Settings, typed once with their bounds: the command line, Python and files are checked by the same annotations.

What cannot work is refused by name, whoever gives it: a person, a program or a file. Nothing heavy is imported.
"""

import os
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T")
MOST_SEED = 2**32 - 1
_COUNTED = 2**31 - 1  # as far as a program counts
Seed = Annotated[int, Meta(ge=0, le=MOST_SEED)]
Count = Annotated[int, Meta(ge=1, le=_COUNTED)]
Positive = Annotated[float, Meta(gt=0, le=1)]  # a rate or a length in (0, 1]
Share = Annotated[float, Meta(ge=0, le=1)]


class OutOfBounds(ValueError):
    """A value that cannot work; the message is one clear line that names it."""


def check_settings(settings: "DataclassInstance") -> None:
    """Check every field of a dataclass by its annotation, bounds included. Nothing is converted.

    A whole number does for a float, but a truth value is no number, and nor is NaN.

    Raises:
        OutOfBounds: For the first field that does not fit, with what would.

    >>> @dataclass(frozen=True)
    ... class Size:
    ...     width: Annotated[int, Meta(ge=1, le=10)] = 1
    >>> check_settings(Size(2.5))
    Traceback (most recent call last):
    cumulant.config.OutOfBounds: width: 2.5 does not fit; give a whole number from 1 to 10

    """
    kinds = get_type_hints(type(settings), include_extras=True)
    for field in fields(settings):
        value, kind = getattr(settings, field.name), kinds[field.name]
        try:
            if msgspec.convert(value, kind) != value:  # NaN, or a list where a tuple is wanted
                raise msgspec.ValidationError
        except msgspec.ValidationError:
            raise OutOfBounds(f"{field.name}: {value!r} does not fit; give {_wanted(kind)}") from None


def restored(kind: type[T], plain: Any) -> T:
    """Return a JSON value as `kind` demands. Nothing is coerced; a `msgspec.Struct` may refuse unknown fields.

    Raises:
        OutOfBounds: With the place of what does not fit.

    >>> restored(tuple[Share, ...], [0.5, 2])
    Traceback (most recent call last):
    cumulant.config.OutOfBounds: expected `float` <= 1.0 - at `$[1]`

    """
    try:
        return msgspec.convert(plain, kind)
    except msgspec.ValidationError as error:
        message = str(error)
        raise OutOfBounds(message[:1].lower() + message[1:]) from None


def _wanted(kind: Any) -> str:
    """Return in words what fits an annotation.

    >>> _wanted(int | None), _wanted(Literal["a", "b"]), _wanted(Positive)
    ('a whole number or nothing', 'a or b', 'a number above 0, up to 1')
    """
    if get_origin(kind) is Annotated:
        base, meta = get_args(kind)[:2]
        low = f" above {meta.gt:,}" if meta.gt is not None else "" if meta.ge is None else f" from {meta.ge:,}"
        high = f" below {meta.lt:,}" if meta.lt is not None else "" if meta.le is None else f" to {meta.le:,}"
        return f"{_wanted(base)}{low}{', up' if meta.gt is not None else ''}{high}"
    if get_origin(kind) is Literal:
        *others, last = map(str, get_args(kind))
        return f"{', '.join(others)} or {last}" if others else last
    words = {int: "a whole number", float: "a number", bool: "true or false", str: "a text", type(None): "nothing"}
    if kind in words:
        return words[kind]
    if get_origin(kind) is tuple:
        return f"a list, each {_wanted(get_args(kind)[0])}"
    return " or ".join(map(_wanted, get_args(kind))) or str(kind)


def check_seed(seed: int) -> None:
    """Raise OutOfBounds for a seed that is none.

    >>> check_seed(-1)
    Traceback (most recent call last):
    cumulant.config.OutOfBounds: a seed lies between 0 and 4294967295, but is -1
    """
    if not 0 <= seed <= MOST_SEED:
        raise OutOfBounds(f"a seed lies between 0 and {MOST_SEED}, but is {seed}")


def check_memory(what: str, size: int) -> None:
    """Raise OutOfBounds for what takes more bytes than this machine has, so that nothing is begun that cannot end.

    >>> check_memory("a replay of so many", 10**30)
    Traceback (most recent call last):
    cumulant.config.OutOfBounds: a replay of so many needs more memory than this machine has
    """
    if size > os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"):
        raise OutOfBounds(f"{what} needs more memory than this machine has")


@dataclass(frozen=True)
class Represent:
    """Stage 1's settings.

    >>> Represent(updates=100).learner
    'keypoints'
    """

    learner: Literal["keypoints", "beta_vae", "ada_gvae"] = "keypoints"  # What the latents are made to be.
    latents: Annotated[int, Meta(ge=1, le=1024)] = 20  # Before dead and redundant ones are dropped.
    width: Annotated[int, Meta(ge=1, le=1024)] = 32  # Channels of a layer.
    beta: Annotated[float, Meta(ge=0, le=1e9)] = 1.0  # Weight of a VAE's divergence.
    pairs: Annotated[int, Meta(ge=1, le=10**9)] = 65_536  # Of frames, one action apart, in random play.
    updates: Annotated[int, Meta(ge=1, le=10**9)] = 5_000  # Of the autoencoder.
    batch: Annotated[int, Meta(ge=1, le=10**9)] = 64  # Pairs in an update.
    restarts: Annotated[int, Meta(ge=1, le=10**9)] = 3  # The best of so many is kept.
    learning_rate: Positive = 1e-3  # Of Adam; warmed up, then a cosine.

    def __post_init__(self) -> None:
        """Refuse settings that cannot work."""
        check_settings(self)
        if self.learner == "keypoints" and self.latents % 2:
            raise OutOfBounds(f"a keypoint has two latents, x and y, but latents is {self.latents}")


@dataclass(frozen=True)
class FreePlay:
    """Stage 2's settings. The defaults are the preset `fast`.

    >>> FreePlay(env_steps=102_400, num_envs=1024).updates
    100
    """

    bins: Annotated[int, Meta(ge=1, le=99)] = 3  # m, the bins of each feature.
    gamma: Annotated[float, Meta(ge=0, lt=1)] = 0.95  # Discount.
    # A trunk each, one, or the paper's.
    network: Literal["trunk_per_feature", "all_policies", "goal_conditioned"] = "trunk_per_feature"
    width: Annotated[int, Meta(ge=1, le=16_384)] = 256  # Units of a layer.
    depth: Annotated[int, Meta(ge=1, le=64)] = 2  # Layers of a trunk; not in the paper's network.
    full_matrix: bool = False  # Learn all of Ψ; or fill in what the Lemma gives.
    relational: bool = True  # Show the trunks differences of features too.
    acting_policy_only: bool = False  # Teach only who acted, as in the paper.
    stratified: bool = True  # Replay by which feature changed, or plainly.
    env_steps: Annotated[int, Meta(ge=1, le=10**12)] = 10_240_000  # Steps in all copies of the world.
    num_envs: Count = 1024  # Copies of the world; each steps once an update.
    batch: Count = 1024  # Transitions in an update.
    learning_rate: Positive = 4e-3  # Of Adam; it falls to a hundredth.
    target_rate: Positive = 0.01  # How fast the target network follows.
    replay: Count = 1_000_000  # Transitions remembered.
    epsilon_low: Positive = 0.05  # Share of random actions in the first copy.
    epsilon_high: Positive = 1.0  # Share in the last; between, geometric.
    # Mean steps with a policy; 0: an episode.
    switch_every: Annotated[int, Meta(ge=0, le=10**6)] = 10
    clipped: bool = True  # Keep the targets of Ψ within [0, 1].
    half_precision: bool = False  # Matrix products in bfloat16.

    def __post_init__(self) -> None:
        """Refuse settings that cannot work."""
        check_settings(self)
        if self.updates > _COUNTED:
            raise OutOfBounds(f"a run has at most {_COUNTED:,} updates, but {self.env_steps:,} env_steps are more")

    @property
    def updates(self) -> int:
        """Updates in all."""
        return max(1, self.env_steps // self.num_envs)


_FEW = 6  # features, which the presets are for
_MORE = 1.39  # times the steps for each feature, where there are more: they hide and hinder each other


def for_features(preset: FreePlay, number: int) -> FreePlay:
    """A preset of ours for a world of so many features: beyond six, more steps and twice the batch.

    >>> for_features(FreePlay(), 6).updates, for_features(FreePlay(), 18).updates
    (10000, 41699)
    """
    if number <= _FEW or preset.acting_policy_only:
        return preset
    return replace(preset, env_steps=int(preset.env_steps * _MORE * number / _FEW), batch=2 * preset.batch)


PRESETS = {
    "fast": FreePlay(),
    "cpu": FreePlay(width=96, batch=256, num_envs=256, env_steps=2_560_000, learning_rate=3e-3, replay=300_000),
    "paper": FreePlay(
        bins=9,
        network="goal_conditioned",
        width=1024,
        relational=False,
        acting_policy_only=True,
        stratified=False,
        env_steps=10_000_000,
        num_envs=64,
        batch=2048,
        learning_rate=1e-3,
        switch_every=0,
        clipped=False,
        half_precision=True,
    ),
}
