"""From pixels, end to end: learn features, play freely on them, solve tasks; and how disentangled the features are."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

from cumulant.experiments.run_folders import Row
from cumulant.experiments.trials import Trials, few_shot, zero_shot
from cumulant.features.coordinates import Features
from cumulant.features.disentanglement import dci, independence
from cumulant.features.encoder import measure
from cumulant.features.representation import represent
from cumulant.features.settings import Represent
from cumulant.freeplay.settings import PRESETS, FreePlay
from cumulant.storage import Unreadable, write_whole
from cumulant.transfer.audit import audit
from cumulant.transfer.pretraining import pretrain
from cumulant.worlds.pixels import PixelSpriteworld
from cumulant.worlds.protocol import World

_JUDGE_SEED = 50_000  # of the states that features are judged by; no training uses it


@dataclass(frozen=True)
class FromPixels:
    """A learner of features, and the free play on what it learnt."""

    represent: Represent
    free_play: FreePlay | None = None  # none: the features alone
    objects: tuple[str, ...] = ("square", "circle")
    look: str = "plain"
    size: int = 64
    disguised: bool = False  # also judged in worlds that look otherwise

    @property
    def world(self) -> PixelSpriteworld:
        """The world that is seen."""
        return PixelSpriteworld(self.objects, look=self.look, size=self.size)


_VAE = Represent("beta_vae", latents=10, restarts=1, updates=10_000)
LEARNERS = {
    "keypoints": FromPixels(Represent(), PRESETS["fast"], disguised=True),
    "beta-vae": FromPixels(replace(_VAE, width=64), PRESETS["fast"]),  # as the search has it
    "ada-gvae": FromPixels(replace(_VAE, learner="ada_gvae", width=64), PRESETS["fast"]),
}
VAE_SEARCH = {
    f"beta-vae-{beta:g}-width-{width}": FromPixels(replace(_VAE, beta=beta, width=width, updates=6_000))
    for beta in (0.25, 1.0, 4.0, 16.0)
    for width in (32, 64)
}
VARIANTS = {
    "keypoints-4-objects": FromPixels(Represent(), objects=("square", "circle", "triangle", "star")),
    "keypoints-alike": FromPixels(Represent(), look="alike"),
}
# Other looks than the one that features were learnt from.
DISGUISES: dict[str, dict[str, Any]] = {
    "other colours": {"look": "other-colours"},
    "one colour for all objects": {"look": "alike"},
    "textured background": {"look": "textured"},
    "objects smaller by a quarter": {"half_extent": 0.075},
    "objects larger by a quarter": {"half_extent": 0.125},
}


def from_pixels(
    name: str, trials: Trials, seeds: Sequence[int], what: FromPixels, folder: Path
) -> tuple[list[Row], dict[str, float]]:
    """Everything for each seed: encoders and libraries go into the folder, measures into its measures.json."""
    rows: list[Row] = []
    measures, seconds = [], {"compile_s": 0.0, "represent_s": 0.0, "train_s": 0.0}

    def note(kind: str, metrics: dict[str, Any]) -> None:
        """Add up the seconds of a report: of compiling at once, of training at its end."""
        if metrics["event"] == "compiled":
            seconds["compile_s"] += metrics["seconds"]
        elif metrics["event"] in ("kept", "finished"):
            seconds[kind] += last[0]
        last[0] = metrics.get("seconds", last[0])

    for seed in seeds:
        last = [0.0]
        world, encoder_folder = what.world, folder / f"encoder-{seed}"
        encoder = represent(world, what.represent, seed, report=lambda metrics: note("represent_s", metrics))
        encoder.save(encoder_folder)
        measured = measure(encoder, jax.random.key(_JUDGE_SEED)).plain() | {"seed": seed, "represent_s": last[0]}
        if what.free_play:
            library = pretrain(
                world,
                what.free_play,
                seed,
                features=encoder,
                report=lambda metrics: note("train_s", metrics),
            )
            assert library is not None
            library.save(folder / f"library-{seed}")
            gpi, bins = library.gpi(), what.free_play.bins
            rows += few_shot(name, world, trials, gpi, bins, seed, paper=False)
            if library.knows_words:
                rows += zero_shot(f"{name}-zero-shot", world, trials, gpi, library.weights_of, seed)
                for words, change in DISGUISES.items() if what.disguised else ():
                    other = replace(world, **change)
                    seen = measure(replace(encoder, world=other), jax.random.key(_JUDGE_SEED))
                    measured.setdefault("disguises", {})[words] = seen.rho
                    fewer = replace(trials, episodes=trials.episodes // 4)
                    rows += zero_shot(f"{name}: {words}", other, fewer, gpi, library.weights_of, seed)
            measured["independence"] = independence(audit(library, jax.random.key(_JUDGE_SEED), 32).moved)
            measured["free_play_s"] = last[0]
        measures.append(measured)
    write_whole(folder / "measures.json", json.dumps(measures, indent=2).encode() + b"\n")
    return rows, seconds


def disentanglement_of(features: Features, world: World, states: int = 2_000) -> float:
    """DCI's disentanglement of features of the true state, which need no encoder."""
    drawn = jax.vmap(world.reset)(jax.random.split(jax.random.key(_JUDGE_SEED), states))
    f = np.asarray(jax.vmap(lambda state: features(world.observe(state)))(drawn))
    return dci(f, np.asarray(jax.vmap(world.features)(drawn))).disentanglement


def read_measures(folder: Path) -> list[dict[str, Any]]:
    """What `from_pixels` measured, a seed after the other."""
    try:
        return json.loads((folder / "measures.json").read_text())
    except (OSError, ValueError) as error:
        raise Unreadable(f"{folder / 'measures.json'} cannot be read: {error}") from None
