"""Stage 2's settings, typed once: the command line and Python read them from here. Nothing heavy is imported."""

from dataclasses import dataclass, replace
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
    # A trunk for each feature; one for all of them; or the paper's.
    network: Literal["trunk_per_feature", "all_policies", "goal_conditioned"] = "trunk_per_feature"
    width: int = 256  # Units of a layer.
    depth: int = 2  # Layers of a trunk; the paper's network has its own.
    full_matrix: bool = False  # Learn all of Ψ; otherwise the off-diagonal trick fills in what the Lemma gives.
    relational: bool = True  # Show trunks the differences of features beside the features.
    acting_policy_only: bool = False  # The paper's rule: a transition teaches only the policy that made it.
    stratified: bool = True  # Replay by which feature changed; otherwise plain.
    env_steps: int = 10_240_000  # Steps of free play, all copies of the world together.
    num_envs: int = 1024  # Copies of the world; one step of each comes before every update.
    batch: int = 1024  # Transitions in an update.
    learning_rate: float = 4e-3  # Of Adam; it falls linearly to a hundredth.
    target_rate: float = 0.01  # How fast the target network follows.
    replay: int = 1_000_000  # Transitions remembered.
    epsilon_low: float = 0.05  # Random actions of the most determined copy of the world.
    epsilon_high: float = 1.0  # Random actions of the least determined; in between, geometrically.
    switch_every: int = 10  # Mean steps until a copy takes up another policy; 0: at each episode's start.
    clipped: bool = True  # Keep targets within [0, 1], where all of Ψ, scaled by 1 - γ, must lie.
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
