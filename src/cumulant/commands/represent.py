"""`cumulant represent`."""

import json as json_text
import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import OmitArgPrefixes, arg

from cumulant.commands.inputs import (
    OBJECTS,
    BadInput,
    Flag,
    at_least,
    given_in,
    key_of,
    settings_options,
    usable_folder,
)
from cumulant.commands.output import doing, on_terminal, print_json, print_table
from cumulant.config import Represent

if TYPE_CHECKING:
    from cumulant.features.encoder import Encoder, Measures
    from cumulant.worlds.pixels import PixelSpriteworld

_JUDGED_SEED = 70_000  # of the frames that an encoder is judged by: apart from those it was trained on
_COLUMNS = 8  # of a picture
_MADE = ".represent.tmp"  # inside the folder, while all is being written
_LONG = 600.0  # seconds, after which somebody may want something quicker


@settings_options(Represent())
class GivenSettings(Represent):
    """Settings of the learning."""


_NOTHING_GIVEN = GivenSettings()


@dataclass(frozen=True)
class RepresentCommand:
    """Stage 1: learn features of frames, from random play.

    Try: cumulant represent --out my-encoder
    """

    out: Path  # Folder for the encoder and pictures.
    seed: int = 0  # Of everything random.
    # Topmost first.
    objects: Annotated[tuple[str, ...], arg(metavar="NAME ...")] = OBJECTS
    size: int = 64  # Of a frame, in pixels.
    look: str = "plain"  # Or other-colours, alike, textured.
    labelled: int = 64  # Frames whose words are known; 0: none.
    force: Flag = False  # Overwrite the encoder in the folder.
    json: Flag = False  # One JSON object on stdout, and nothing else.
    given: Annotated[OmitArgPrefixes[GivenSettings], arg(name="learning", help="")] = _NOTHING_GIVEN

    @property
    def settings(self) -> Represent:
        """Settings of the learning, or OutOfBounds."""
        return Represent(**given_in(self.given))

    def world(self) -> "PixelSpriteworld":
        """Make the world of the given objects, seen as frames."""
        from cumulant.worlds.pixels import PixelSpriteworld

        try:
            return PixelSpriteworld(self.objects, size=self.size, look=self.look)
        except ValueError as error:
            raise BadInput(str(error)) from None

    def run(self) -> None:
        """Learn, judge and draw; only then touch the folder, which is locked meanwhile."""
        with on_terminal("loading", self.json):
            from cumulant.features.representation import check_size
            from cumulant.storage import Locked, Unwritable, locked

            world = self.world()
            at_least("labelled", self.labelled, 0)
            key_of(self.seed)
            check_size(world, self.settings, self.labelled)
        usable_folder(self.out)
        try:
            with locked(self.out):
                self._check_folder()
                encoder, judged = self._learn(world)
        except (Locked, Unwritable) as error:
            raise BadInput(str(error)) from None
        if self.json:
            return print_json({"out": str(self.out)} | judged)
        self._tell(encoder, judged)

    def _learn(self, world: "PixelSpriteworld") -> "tuple[Encoder, dict[str, Any]]":
        """Learn an encoder, write it into the folder, and return it with its measures."""
        import jax

        from cumulant.commands.progress import Reporter
        from cumulant.features.encoder import measure
        from cumulant.features.representation import represent
        from cumulant.storage import write_whole

        settings = self.settings
        reporter = Reporter(settings.updates * settings.restarts, self.json)
        curve: list[dict[str, Any]] = []

        def report(metrics: dict[str, Any]) -> None:
            if slow:
                self._warn(metrics)
            if metrics["event"] == "progress":
                curve.append({name: value for name, value in metrics.items() if name != "event"})
            reporter(metrics)

        slow = jax.default_backend() == "cpu" and not self.json
        try:
            with reporter:
                encoder = represent(world, settings, self.seed, self.labelled, report)
        except ValueError as error:
            raise BadInput(str(error)) from None
        with doing("judging", self.json):
            measures = measure(encoder, jax.random.fold_in(key_of(_JUDGED_SEED), self.seed))
        judged = measures.plain() | {"compile_s": reporter.compile_seconds, "train_s": reporter.train_seconds}
        made = self.out / _MADE
        shutil.rmtree(made, ignore_errors=True)  # of a command that was killed
        try:
            encoder.save(made)
            write_whole(made / "metrics.jsonl", "".join(f"{json_text.dumps(line)}\n" for line in curve).encode())
            write_whole(made / "measures.json", (json_text.dumps(judged, indent=2) + "\n").encode())
            _draw(made, encoder, measures)
        except BaseException:
            shutil.rmtree(made, ignore_errors=True)
            raise
        _put_in_place(made, self.out)
        return encoder, judged

    def _warn(self, metrics: dict[str, Any]) -> None:
        """Print at once that there is no GPU, and after the first update how long it will take, and what is quicker."""
        updates = self.settings.updates * self.settings.restarts
        if metrics["event"] == "begun":
            said = f"no GPU here: after the first of {updates:,} updates it will be told how long they take"
        elif metrics["event"] == "pace":
            seconds = metrics["seconds"]
            said = f"{updates:,} updates of {seconds:.2g} s: about {_duration(updates * seconds)}"
            if updates * seconds > _LONG:
                said += f"; quicker: --size 16 (now {self.size}), --updates 500, --restarts 1, or a GPU"
        else:
            return
        print(said, file=sys.stderr, flush=True)

    def _check_folder(self) -> None:
        from cumulant.storage import CONFIG_BYTES, read_plain

        if not (self.out / "config.json").exists():
            return
        if b'"represent"' not in read_plain(self.out, "config.json", CONFIG_BYTES):  # a damaged encoder has it, too
            raise BadInput(f"{self.out} holds something other than an encoder: choose another folder")
        if not self.force:
            raise BadInput(f"{self.out} already holds an encoder: overwrite it with --force")

    def _tell(self, encoder: "Encoder", judged: dict[str, Any]) -> None:
        told = zip(judged["rho"].items(), judged["latent"], strict=True)
        rows = [[factor, "none" if latent < 0 else str(latent), f"{rho:.3f}"] for (factor, rho), latent in told]
        title = f"{judged['kept']} of {encoder.settings.latents} latents kept; rank correlations on unseen frames"
        print_table(title, ["factor", "latent", "|ρ|"], rows)
        scores = ", ".join(f"{name} {judged[name]:.2f}" for name in ("disentanglement", "completeness", "mig"))
        times = f"{judged['train_s']:.1f} s, compiled in {judged['compile_s']:.1f} s"
        print(f"{self.out}: {encoder.settings.updates:,} updates in {times}; {scores}")
        if self.labelled and not encoder.grounding:
            k = len(encoder.world.feature_names)
            print(f"Words mean nothing here: {judged['kept']} latents are too few for {k} coordinates.")
        print(f"Next: cumulant pretrain --features learnt:{self.out} --out my-library")


def _duration(seconds: float) -> str:
    """Return a time in the unit that suits it."""
    for unit, length in (("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"


def _put_in_place(made: Path, out: Path) -> None:
    """Replace an encoder by another. config.json vouches for the weights: it goes before the old, and comes last."""
    from cumulant.storage import Unwritable, sync_folder

    encoder = ("weights.safetensors", "config.json")
    try:
        for path in [path for path in made.iterdir() if path.name not in encoder]:
            os.replace(path, out / path.name)
        (out / "config.json").unlink(missing_ok=True)
        sync_folder(out)
        for name in encoder:
            os.replace(made / name, out / name)
            sync_folder(out)
        made.rmdir()
    except OSError as error:
        raise Unwritable(f"cannot write {out}: {error.strerror or error}") from None


def _draw(folder: Path, encoder: "Encoder", measures: "Measures") -> None:
    """Write pictures of reconstructions, traversals and correlations."""
    import equinox as eqx
    import jax
    import jax.numpy as jnp
    import numpy as np

    from cumulant.commands.drawings import draw_correlations, draw_frames
    from cumulant.features.autoencoders import image_of
    from cumulant.goals.feature import names_of

    world, coder = encoder.world, encoder.autoencoder
    states = jax.vmap(world.reset)(jax.random.split(jax.random.key(_JUDGED_SEED), _COLUMNS))
    frames = jax.vmap(world.observe)(states)
    again = jnp.clip(eqx.filter_jit(jax.vmap(lambda frame: coder.decode(coder.encode(frame))))(frames), 0, 1)
    pairs = np.stack([jax.vmap(image_of)(frames), again])
    draw_frames(folder / "reconstructions.png", pairs, ["frame", "reconstruction"], "Frames that it has not seen")
    own, k = encoder(frames[0]), len(encoder.kept)
    wanted = jax.vmap(lambda i: jax.vmap(own.at[i].set)(jnp.linspace(0, 1, _COLUMNS)))(jnp.arange(k))
    imagined = eqx.filter_jit(lambda encoder, f: jax.vmap(jax.vmap(encoder.imagine))(f))(encoder, wanted)
    title = "One frame, each latent from 0 to 1, the others as they are"
    draw_frames(folder / "traversals.png", np.asarray(imagined), encoder.names, title)
    title = "Rank correlations on unseen frames"
    factors = names_of(world.feature_names)
    draw_correlations(folder / "correlations.png", measures.correlations, encoder.names, factors, title)
