"""`cumulant pretrain`."""

import signal
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from cumulant.commands.inputs import OBJECTS, BadInput, key_of, usable_folder, world_of
from cumulant.commands.output import print_json

if TYPE_CHECKING:
    from cumulant.spriteworld import Spriteworld
    from cumulant.successor import FreePlay


@dataclass(frozen=True)
class Pretrain:
    """Stage 2: play freely, with no reward, and learn every feature's policies and their successor features.

    Try: cumulant pretrain --preset cpu --out my-library
    """

    out: Path  # Folder for the library, its metrics and its checkpoints.
    preset: Literal["cpu", "fast", "paper"] = "cpu"  # For 2 cores; for one GPU; as in the paper.
    seed: int = 0  # Of everything random.
    objects: tuple[str, ...] | None = None  # The world's objects, topmost first; by default a square and a circle.
    features: str = "true"  # Or learnt:FOLDER, entangled:SEED, or package.module:function of the observation.
    env_steps: int | None = None  # Steps of free play, in place of the preset's.
    bins: int | None = None  # Bins of each feature, in place of the preset's.
    gamma: float | None = None  # Discount, in place of the preset's.
    width: int | None = None  # Units of a layer, in place of the preset's.
    learning_rate: float | None = None  # In place of the preset's.
    full_matrix: bool = False  # Learn all of Ψ rather than fill it in by the Lemma.
    resume: bool = False  # Go on with the run in the folder.
    force: bool = False  # Overwrite the run in the folder.
    checkpoint_seconds: float = 60.0  # Time between checkpoints.
    tensorboard: bool = False  # Write TensorBoard events too (extra `tensorboard`).
    json: bool = False  # One JSON object on stdout, and nothing else.

    def config(self) -> "FreePlay":
        """The preset, with what was given in its place."""
        from cumulant.successor import PRESETS

        given = {name: getattr(self, name) for name in ("env_steps", "bins", "gamma", "width", "learning_rate")}
        changes = {name: value for name, value in given.items() if value is not None}
        try:
            return replace(PRESETS[self.preset], full_matrix=self.full_matrix, **changes)
        except ValueError as error:
            raise BadInput(str(error)) from None

    def world(self) -> "Spriteworld":
        """The world that the features were learnt in, or one of the given objects."""
        from cumulant.features import encoder_in, folder_of, is_learnt, named_features
        from cumulant.library import encoder_folder
        from cumulant.store import Unreadable

        try:
            if not is_learnt(self.features):
                world = world_of(self.objects or OBJECTS)
                named_features(self.features, len(world.feature_names))
                return world
            given = folder_of(self.features)
            kept = self.resume and not given.exists()  # a run has a copy of its encoder
            learnt_in = encoder_in(encoder_folder(self.out) if kept else given).world
        except (Unreadable, ValueError) as error:
            raise BadInput(str(error)) from None
        if self.objects not in (None, learnt_in.objects):
            raise BadInput(
                f"{self.features} was learnt in a world of {', '.join(learnt_in.objects)}: leave out --objects"
            )
        return learnt_in

    def run(self) -> None:
        """Train, unless the folder already holds a run."""
        import shutil

        from cumulant.freeplay import Diverged, holds_a_run, pretrain
        from cumulant.progress import Reporter
        from cumulant.store import Unreadable

        config, world = self.config(), self.world()
        key_of(self.seed)
        if holds_a_run(self.out) and not (self.resume or self.force):
            raise BadInput(f"{self.out} already holds a run: go on with --resume, or overwrite it with --force")
        if (self.out / "config.json").exists() and self.resume:
            raise BadInput(f"{self.out} holds a finished run: there is nothing to resume")
        usable_folder(self.out)
        if self.force:
            for name in ("config.json", "weights.safetensors", "metrics.jsonl"):
                (self.out / name).unlink(missing_ok=True)
            shutil.rmtree(self.out / "checkpoints", ignore_errors=True)
        stop = _Interrupt()
        reporter = Reporter(config.updates, self.json, self.out / "tensorboard" if self.tensorboard else None)
        try:
            with reporter, stop:
                library = pretrain(
                    world,
                    config,
                    self.seed,
                    self.out,
                    self.features,
                    self.resume,
                    reporter,
                    stop.requested,
                    self.checkpoint_seconds,
                )
        except (Diverged, Unreadable, ValueError, ModuleNotFoundError) as error:
            raise BadInput(str(error)) from None
        if library is None:
            print(f"stopped and saved: go on with the same command and --resume (in {self.out})", file=sys.stderr)
            raise SystemExit(130)
        if self.json:
            return print_json({"out": str(self.out), "updates": config.updates} | reporter.summary())
        train, compiling = f"{reporter.train_seconds:.1f} s", f"{reporter.compile_seconds:.1f} s"
        print(f"{self.out}: {config.updates:,} updates in {train}, compiled in {compiling}")
        goal = "--reward package.module:function" if library.misunderstanding else f'"{world.objects[0]} top left"'
        print(f"Next: cumulant solve {goal} --library {self.out}")


class _Interrupt:
    """Ctrl-C asks for a stop after the running chunk; a second one stops at once."""

    def __init__(self) -> None:
        self._asked = False

    def requested(self) -> bool:
        return self._asked

    def __enter__(self) -> "_Interrupt":
        self._before: Any = signal.signal(signal.SIGINT, self._ask)
        return self

    def __exit__(self, *exception: object) -> None:
        signal.signal(signal.SIGINT, self._before)

    def _ask(self, *_: Any) -> None:
        self._asked = True
        signal.signal(signal.SIGINT, self._before)
