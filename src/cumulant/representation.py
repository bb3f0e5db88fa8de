"""Stage 1, from pixels: learn features f: frame → [0, 1]^k without rewards, labels or the true state."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, UInt8

from cumulant import store
from cumulant.grounding import Grounding

FORMAT = 1


class Encoder(eqx.Module):
    """Learnt features: those latents that are neither dead nor redundant, each scaled by its range in the data."""

    autoencoder: Any
    kept: Int[Array, " k"]
    low: Float[Array, " k"]
    high: Float[Array, " k"]
    grounding: Grounding | None  # what words mean, if frames were labelled

    def __call__(self, frame: UInt8[Array, "size size 3"]) -> Float[Array, " k"]:
        """[size, size, 3] → [k], in [0, 1] for unseen frames too."""
        z = self.autoencoder.encode(frame)[self.kept]
        return jnp.clip((z - self.low) / (self.high - self.low), 0, 1)

    def save(self, folder: Path) -> None: ...

    @classmethod
    def load(cls, folder: Path) -> "Encoder": ...
