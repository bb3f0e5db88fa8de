"""Stage 2's settings, typed once: the command line and Python read them from here. Nothing heavy is imported."""

from dataclasses import dataclass, field, replace
from typing import Literal

from cumulant.bounds import OutOfBounds, check_settings

_COUNTED = 2**31 - 1  # as far as a program counts


@dataclass(frozen=True)
class FreePlay:
    """Stage 2's settings. The defaults are the preset `fast`.

    >>> FreePlay(env_steps=102_400, num_envs=1024).updates
    100
    """

    bins: int = 3  # m, the bins of each feature.
    gamma: float = 0.95  # Discount.
    # A trunk each, one, or the paper's.
    network: Literal["trunk_per_feature", "all_policies", "goal_conditioned"] = "trunk_per_feature"
    width: int = 256  # Units of a layer.
    depth: int = 2  # Layers of a trunk; not in the paper's network.
    full_matrix: bool = False  # Learn all of Ψ; or fill in what the Lemma gives.
    relational: bool = True  # Show the trunks differences of features too.
    acting_policy_only: bool = False  # Teach only who acted, as in the paper.
    stratified: bool = True  # Replay by which feature changed, or plainly.
    env_steps: int = 10_240_000  # Steps in all copies of the world.
    num_envs: int = 1024  # Copies of the world; each steps once an update.
    batch: int = 1024  # Transitions in an update.
    learning_rate: float = 4e-3  # Of Adam; it falls to a hundredth.
    target_rate: float = 0.01  # How fast the target network follows.
    replay: int = 1_000_000  # Transitions remembered.
    epsilon_low: float = 0.05  # Share of random actions in the first copy.
    epsilon_high: float = 1.0  # Share in the last; between, geometric.
    switch_every: int = 10  # Mean steps with a policy; 0: an episode.
    # Keep the targets of Ψ within [0, 1].
    clipped: bool = field(default=True, metadata={"before": False})
    half_precision: bool = False  # Matrix products in bfloat16.

    def __post_init__(self) -> None:
        """Refuse settings that cannot work."""
        counts = dict.fromkeys(("num_envs", "batch", "replay"), (1, _COUNTED)) | {"env_steps": (1, 1e12)}
        check_settings(self, bins=(1, 99), width=(1, 16_384), depth=(1, 64), switch_every=(0, 1e6), **counts)
        if self.updates > _COUNTED:
            raise OutOfBounds(f"a run has at most {_COUNTED:,} updates, but {self.env_steps:,} env_steps are more")
        if not 0 <= self.gamma < 1:
            raise OutOfBounds(
                f"gamma must lie in [0, 1), but is {self.gamma}: with 1 the sums of cumulants are infinite"
            )
        for name in ("learning_rate", "target_rate", "epsilon_low", "epsilon_high"):
            if not 0 < getattr(self, name) <= 1:
                raise OutOfBounds(f"{name} must lie in (0, 1], but is {getattr(self, name)}")

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
