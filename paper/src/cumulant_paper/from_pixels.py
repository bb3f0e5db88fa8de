"""From pixels, end to end: learn features, play freely on them, solve tasks; and how disentangled the features are."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import jax

from cumulant.config import FreePlay, Represent
from cumulant.features.disentanglement import independence
from cumulant.features.encoder import measure
from cumulant.features.representation import represent
from cumulant.sweeps.experiments import Outcome
from cumulant.sweeps.judging import TUNING_SEED, few_shot, zero_shot
from cumulant.sweeps.run_folders import Measured, Row
from cumulant.sweeps.trials import Clock
from cumulant.transfer.audit import audit
from cumulant.transfer.library import Library
from cumulant.transfer.pretraining import pretrain
from cumulant.worlds.pixels import PixelSpriteworld
from cumulant.worlds.protocol import World
from cumulant_paper.experiments import RECORDED_PLAY, Part, Scale, in_miniature
from cumulant_paper.measures import JUDGE_SEED

_STARTS = 32  # from which policies are played, to see what they do to features
_FEWER = 4  # times fewer episodes in a disguised world than in the features' own


@dataclass(frozen=True)
class Pipeline:
    """A learner of features, the world that it sees, and the free play on what it learnt."""

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


# Other looks than the one that features were learnt from.
DISGUISES: dict[str, Callable[[PixelSpriteworld], PixelSpriteworld]] = {
    "other colours": lambda world: replace(world, look="other-colours"),
    "one colour for all objects": lambda world: replace(world, look="alike"),
    "textured background": lambda world: replace(world, look="textured"),
    "objects smaller by a quarter": lambda world: replace(world, half_extent=0.075),
    "objects larger by a quarter": lambda world: replace(world, half_extent=0.125),
}


@dataclass(frozen=True)
class FromPixels(Part):
    """Features learnt from frames, and success with them."""

    pipeline: Pipeline
    search: bool = False  # for a learner's settings: a seed that no figure has

    def settings(self) -> Pipeline:
        """Return the pipeline's; whether they are searched for shows in the scale."""
        return self.pipeline

    def shrunk(self) -> "FromPixels":
        """Return small frames, and hardly any learning."""
        pipeline, learner = self.pipeline, self.pipeline.represent
        tiny = replace(learner, width=8, latents=min(learner.latents, 12), pairs=512, updates=100, batch=8, restarts=1)
        play = pipeline.free_play and in_miniature(pipeline.free_play)
        return replace(self, pipeline=replace(pipeline, represent=tiny, free_play=play, size=24))

    def scaled(self, scale: Scale) -> Scale:
        """Return a seed of its own for a search; and one budget, for labelled steps from frames take long."""
        if self.search:
            return replace(scale, seeds=(TUNING_SEED,))
        return replace(scale, budgets=scale.budgets[-1:]) if self.pipeline.free_play else scale

    def run(self, name: str, scale: Scale, folder: Path) -> Outcome:
        """Do everything for each seed; encoders and libraries go into the folder."""
        each = [self._seed(name, scale, folder, seed) for seed in scale.seeds]
        seconds = {stage: sum(ran.seconds[stage] for ran in each) for stage in each[0].seconds}
        measures = [measured for ran in each for measured in ran.measures or ()]
        return Outcome([row for ran in each for row in ran.rows], seconds, measures)

    def _seed(self, name: str, scale: Scale, folder: Path, seed: int) -> Outcome:
        world, key, seeing, playing = self.pipeline.world, jax.random.key(JUDGE_SEED), Clock(), Clock()
        encoder = represent(world, self.pipeline.represent, seed, report=seeing)
        encoder.save(folder / f"encoder-{seed}")
        told = measure(encoder, key).plain() | {"seed": seed, "represent_s": seeing.learning}
        rows: list[Row] = []
        if self.pipeline.free_play:
            library = pretrain(world, self.pipeline.free_play, seed, features=encoder, report=playing)
            assert library is not None  # nothing stops it
            library.save(folder / f"library-{seed}")
            rows += _solved(name, world, scale, library, seed)
            if self.pipeline.disguised and library.knows_words:
                others = {words: disguise(world) for words, disguise in DISGUISES.items()}
                rows += _solved_in_disguise(name, others, scale, library, seed)
                told["disguises"] = {w: measure(replace(encoder, world=o), key).rho for w, o in others.items()}
            told["independence"] = independence(audit(library, key, _STARTS).moved)
            told["free_play_s"] = playing.learning
        learning = {"represent_s": seeing.learning, "train_s": playing.learning}
        return Outcome(rows, {"compile_s": seeing.compiling + playing.compiling} | learning, [cast(Measured, told)])


def _solved(name: str, world: World, scale: Scale, library: Library, seed: int) -> Iterator[Row]:
    """Judge from labelled steps and, where the features know words, zero-shot."""
    yield from few_shot(name, world, scale, library.gpi(), library.config.bins, seed, paper=False)
    if library.knows_words:
        yield from zero_shot(f"{name}-zero-shot", world, scale, library.gpi(), library.weights_of, seed)


def _solved_in_disguise(
    name: str, worlds: Mapping[str, World], scale: Scale, library: Library, seed: int
) -> Iterator[Row]:
    """Judge zero-shot in worlds that look otherwise; as there are many of them, from fewer episodes."""
    fewer = replace(scale, episodes=scale.episodes // _FEWER)
    for words, world in worlds.items():
        yield from zero_shot(f"{name}: {words}", world, fewer, library.gpi(), library.weights_of, seed)


_VAE = Represent("beta_vae", latents=10, restarts=1, updates=10_000)
_SEARCHED_VAE = replace(_VAE, updates=6_000)
_WIDTH = 64  # of the VAEs, as the search has it
LEARNERS = {
    "keypoints": FromPixels(Pipeline(Represent(), RECORDED_PLAY, disguised=True)),
    "beta-vae": FromPixels(Pipeline(replace(_VAE, width=_WIDTH), RECORDED_PLAY)),
    "ada-gvae": FromPixels(Pipeline(replace(_VAE, learner="ada_gvae", width=_WIDTH), RECORDED_PLAY)),
}
VAE_SEARCH = {
    f"beta-vae-{beta:g}-width-{width}": FromPixels(Pipeline(replace(_SEARCHED_VAE, beta=beta, width=width)), True)
    for beta in (0.25, 1.0, 4.0, 16.0)
    for width in (32, 64)
}
VARIANTS = {
    "keypoints-4-objects": FromPixels(Pipeline(Represent(), objects=("square", "circle", "triangle", "star"))),
    "keypoints-alike": FromPixels(Pipeline(Represent(), look="alike")),
}
