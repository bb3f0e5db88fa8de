"""`cumulant pretrain`."""

import signal
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Literal

from tyro.conf import OmitArgPrefixes, arg

from cumulant.commands.inputs import (
    OBJECTS,
    BadInput,
    Flag,
    Objects,
    at_least,
    features_named,
    given_in,
    key_of,
    learnt_folder,
    settings_options,
    usable_folder,
    world_of,
)
from cumulant.commands.output import on_terminal, print_json
from cumulant.commands.worlds import GYMNASIUM, typed, world_asked, world_named
from cumulant.config import PRESETS, FreePlay, for_features

if TYPE_CHECKING:
    from cumulant.features.coordinates import Features
    from cumulant.worlds.protocol import World


@settings_options(PRESETS["cpu"])
class GivenSettings(FreePlay):
    """Settings that take the place of the preset's."""


_NOTHING_GIVEN = GivenSettings()


@dataclass(frozen=True)
class Pretrain:
    """Stage 2: play freely, with no reward, and learn to act.

    Options below show what the preset cpu sets; beyond six features, env-steps and batch grow.
    """

    out: Path = Path("my-library")  # Folder to write.
    # cpu, for 2 cores; fast, for a GPU; or paper.
    preset: Annotated[Literal["cpu", "fast", "paper"], arg(metavar="NAME")] = "cpu"
    seed: int = 0  # Of everything random.
    world: str = "spriteworld"  # Or room, my.module:World ...
    objects: Objects = None  # Of spriteworld, topmost first.
    features: str = "true"  # Or learnt:FOLDER, my.module:function ...
    resume: Flag = False  # Go on with the run in the folder.
    force: Flag = False  # Overwrite the run in the folder.
    checkpoint_seconds: float = 60.0  # Time between checkpoints.
    tensorboard: Flag = False  # Write TensorBoard events too (extra `tensorboard`).
    json: Flag = False  # One JSON object on stdout, and nothing else.
    settings: Annotated[OmitArgPrefixes[GivenSettings], arg(name="free play", help="")] = _NOTHING_GIVEN

    def run(self) -> None:
        """Train, unless the folder already holds a run."""
        with on_terminal("loading", self.json):
            from cumulant.commands.progress import Reporter
            from cumulant.freeplay.runs import Diverged
            from cumulant.goals.suites import example as example_of
            from cumulant.storage import Unreadable, Unwritable
            from cumulant.transfer.library_folders import written_card
            from cumulant.transfer.pretraining import pretrain

            world, features, settings = self._checked()
        stop, updates = _Interrupt(), settings.updates
        try:
            reporter = Reporter(updates, self.json, self.out / "tensorboard" if self.tensorboard else None)
            with reporter, stop:
                library = pretrain(
                    world,
                    settings,
                    self.seed,
                    self.out,
                    features,
                    self.resume,
                    reporter,
                    stop.requested,
                    self.checkpoint_seconds,
                    self.force,
                )
        except (Diverged, Unreadable, Unwritable, ValueError, ModuleNotFoundError) as error:
            raise BadInput(str(error)) from None
        if library is None:
            print(f"stopped and saved: go on with the same command and --resume (in {self.out})", file=sys.stderr)
            raise SystemExit(130)
        if self.json:
            return print_json({"out": str(self.out), "updates": updates} | reporter.summary())
        train, compiling = f"{reporter.train_seconds:.1f} s", f"{reporter.compile_seconds:.1f} s"
        print(f"{self.out}: {updates:,} updates in {train}, compiled in {compiling}")
        if (card := written_card(self.out)) is not None:
            print(f"Card: {card}")
        example = example_of(library.world.feature_names) if library.knows_words else None
        goal = f'"{example}"' if example else "--reward package.module:function"
        own = f" {typed(self.world)}" if ":" in self.world else ""
        if ":" in self.features and not self.features.startswith(("learnt:", "entangled:")):
            own += f" --features {self.features}"
        print(f"Next: cumulant solve {goal} --library {self.out}{own}")

    def _checked(self) -> "tuple[World, Features, FreePlay]":
        """What is to be run, once nothing stands in its way."""
        from cumulant.freeplay.checkpoints import holds_a_run, was_begun
        from cumulant.freeplay.learning import check_size

        at_least("checkpoint-seconds", self.checkpoint_seconds, 0)
        if self.resume and self.force:
            raise BadInput("--resume goes on with a run, and --force overwrites it: choose one of them")
        if self.resume and not was_begun(self.out):
            raise BadInput(f"{self.out} holds no run: there is nothing to resume")
        world, features = self._world_and_features()
        key_of(self.seed)
        if holds_a_run(self.out) and not (self.resume or self.force):
            raise BadInput(f"{self.out} already holds a run: go on with --resume, or overwrite it with --force")
        settings = self.settings_for(world)
        check_size(world, settings, features)
        usable_folder(self.out)
        return world, features, settings

    def settings_for(self, world: "World") -> FreePlay:
        """Return the preset as it suits the world, with the settings that were given in place of its own."""
        return replace(suited(PRESETS[self.preset], world), **given_in(self.settings))

    def _world_and_features(self) -> "tuple[World, Features]":
        """Return the world, which learnt features bring with them, and the features."""
        from cumulant.features.encoder import Encoder
        from cumulant.transfer.library_folders import encoder_folder

        given = learnt_folder(self.features)
        if self.world != "spriteworld":
            return self._own_world()
        if given is None:
            world: World = world_asked(self.world, self.objects)
            return world, features_named(self.features, world)
        kept = self.resume and not given.exists()  # a run has a copy of its encoder
        encoder = features_named(f"learnt:{encoder_folder(self.out) if kept else given}", world_of(OBJECTS))
        assert isinstance(encoder, Encoder)
        objects = getattr(encoder.world, "objects", ())
        if self.objects not in (None, objects):
            raise BadInput(f"{self.features} was learnt in a world of {', '.join(objects)}: leave out --objects")
        return encoder.world, encoder

    def _own_world(self) -> "tuple[World, Features]":
        """Return any other world, looked at before anything is learnt in it, and the features."""
        from cumulant.features.coordinates import true_features

        if self.objects is not None:
            raise BadInput("--objects are spriteworld's: leave them out, or --world")
        if self.world.startswith(GYMNASIUM):
            world = world_named(self.world, "" if self.features == "true" else self.features)
            features: Features = true_features
        else:
            world = world_named(self.world)
            features = features_named(self.features, world)
        looked_at(world)
        return world, features


def suited(preset: FreePlay, world: "World") -> FreePlay:
    """Return a preset with what suits a world's features and environments."""
    from cumulant.worlds.protocol import at_once

    grown = for_features(preset, len(world.feature_names))
    if (most := at_once(world)) is not None:  # as many updates, each after a step of every environment
        grown = replace(grown, num_envs=most, env_steps=most * grown.updates)
    return grown


def looked_at(world: "World") -> None:
    """Refuse a world in which nothing can be learnt, and print what else is odd."""
    from cumulant.worlds.check import check

    for finding in check(world):
        said = f"{finding.about}: {finding.message}"
        if finding.kind == "error":
            raise BadInput(f"nothing can be learnt in this world: {said}")
        print(f"warning: {said}", file=sys.stderr)


class _Interrupt:
    """A stop after the running chunk, asked for by Ctrl+C; a second Ctrl+C stops at once."""

    def __init__(self) -> None:
        self._asked = False

    def requested(self) -> bool:
        return self._asked

    def __enter__(self) -> "_Interrupt":
        self._before = signal.signal(signal.SIGINT, self._ask)
        return self

    def __exit__(self, *exception: object) -> None:
        signal.signal(signal.SIGINT, self._before)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        self._asked = True
        signal.signal(signal.SIGINT, self._before)
