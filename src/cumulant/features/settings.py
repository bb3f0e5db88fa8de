"""Stage 1's settings, typed once: the command line and Python read them from here. Nothing heavy is imported."""

from dataclasses import dataclass
from typing import Literal

from cumulant.bounds import OutOfBounds, check_settings

Learner = Literal["keypoints", "beta_vae", "ada_gvae"]


@dataclass(frozen=True)
class Represent:
    """Stage 1's settings.

    >>> Represent(updates=100).learner
    'keypoints'
    """

    learner: Learner = "keypoints"  # What the latents are made to be.
    latents: int = 20  # Before dead and redundant ones are dropped.
    width: int = 32  # Channels of a layer.
    beta: float = 1.0  # Weight of a VAE's divergence.
    pairs: int = 65_536  # Of frames, one action apart, in random play.
    updates: int = 5_000  # Of the autoencoder.
    batch: int = 64  # Pairs in an update.
    restarts: int = 3  # The best of so many is kept.
    learning_rate: float = 1e-3  # Of Adam; warmed up, then a cosine.

    def __post_init__(self) -> None:
        """Refuse settings that cannot work."""
        counts = dict.fromkeys(("pairs", "updates", "batch", "restarts"), (1, 1e9))
        check_settings(self, latents=(1, 1024), width=(1, 1024), **counts)
        if self.learner == "keypoints" and self.latents % 2:
            raise OutOfBounds(f"a keypoint has two latents, x and y, but latents is {self.latents}")
        if not 0 < self.learning_rate <= 1:
            raise OutOfBounds(f"learning_rate must lie in (0, 1], but is {self.learning_rate}")
        if self.beta < 0:
            raise OutOfBounds(f"beta must not be negative, but is {self.beta}")
