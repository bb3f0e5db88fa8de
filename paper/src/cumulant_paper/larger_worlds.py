"""How success and time grow with the number of objects: our preset beside the paper's."""

from dataclasses import dataclass, replace
from pathlib import Path

from cumulant.config import PRESETS, FreePlay, for_features
from cumulant.sweeps.experiments import Outcome
from cumulant.sweeps.judging import zero_shot
from cumulant.sweeps.run_folders import Row
from cumulant.sweeps.trials import Clock
from cumulant.transfer.pretraining import pretrain
from cumulant.worlds.shapes import SHAPES
from cumulant_paper.experiments import Part, Scale


@dataclass(frozen=True)
class InLargerWorld(Part):
    """Free play in a world of so many objects, then committed GPI from words."""

    objects: int = 2
    free_play: FreePlay = PRESETS["fast"]
    seeds: int = 1

    def scaled(self, scale: Scale) -> Scale:
        """Return only as many seeds as it has."""
        return replace(scale, seeds=scale.seeds[: self.seeds])

    def run(self, name: str, scale: Scale, folder: Path) -> Outcome:
        """Train one seed after the other, so that the time is that of one alone: the longest."""
        world, rows = self.world, list[Row]()
        clocks = [Clock() for _ in scale.seeds]
        for seed, clock in zip(scale.seeds, clocks, strict=True):
            library = pretrain(world, self.free_play, seed, report=clock)
            assert library is not None  # nothing stops it
            rows += zero_shot(name, world, scale, library.gpi(), library.weights_of, seed)
        compiling, learning = max(c.compiling for c in clocks), max(c.learning for c in clocks)
        return Outcome(rows, {"compile_s": compiling, "train_s": learning})


_THREE_SEEDS = (2, 4, 8)  # objects, of which the documentation speaks
LARGER_WORLDS: dict[str, Part] = {
    f"{preset}-{objects}-objects": InLargerWorld(
        objects,
        for_features(PRESETS[preset], 2 * (objects + 1)),
        seeds=3 if preset == "fast" and objects in _THREE_SEEDS else 1,
    )
    for preset in ("fast", "paper")
    for objects in range(1, len(SHAPES) + 1)
}
