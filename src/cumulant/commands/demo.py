"""`cumulant demo`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cumulant.commands.inputs import SHIPPED, BadInput, Flag, LibraryGiven, at_least, drawable, key_of, usable_files
from cumulant.commands.output import as_json, doing, on_terminal, print_json, print_table, rate_and_steps

_PHRASES = (
    "get the {0} to the top left",
    "{0} bottom right and {1} top left",
    "({0} top left or {1} top right) and agent bottom",
)
_NEXT = """  cumulant solve "circle top left and square not left" --gif mine.gif    words in, an episode out
  cumulant serve                                                         a page: type, watch, play, teach
  cumulant pretrain --preset cpu --out my-library                        your own library, in minutes
(after `make demo`, the command is .venv/bin/cumulant; the page needs: make serve)"""


@dataclass(frozen=True)
class Demo:
    """Solve three phrases that the shipped library has never seen.

    It writes a table in the terminal, a GIF and a contact sheet.
    """

    out: Path = Path("demo")  # Folder for demo.gif and demo.png.
    episodes: int = 200  # Episodes of each phrase.
    seed: int = 0  # Of the starts.
    json: Flag = False  # One JSON object on stdout, and nothing else.
    using: LibraryGiven = SHIPPED

    def run(self) -> None:
        """Play the phrases, draw them, and print a table."""
        with on_terminal("loading", self.json):
            import jax

            from cumulant.config import check_memory
            from cumulant.goals.plans import tables_of
            from cumulant.transfer.evaluation import check_episodes, evaluate_references, summarise
            from cumulant.worlds.episodes import rollouts
            from cumulant.worlds.films import WORTHWHILE, film_of, save_contact_sheet, save_gif

            at_least("episodes", self.episodes, 1)
            check_episodes(self.episodes)
            library, key = self.using.load(), key_of(self.seed)
        if library.why_no_words:
            raise BadInput(library.why_no_words)
        if not hasattr(library.world, "objects"):
            raise BadInput(
                f"the demo is about sprites, and a {type(library.world).__name__} has none: try cumulant solve"
            )
        drawable(library.world)
        usable_files(self.out / "demo.gif", self.out / "demo.png")
        world: Any = library.world
        kept = 4 * self.episodes * world.max_steps * len(world.feature_names)  # bytes of a phrase's episodes
        check_memory(f"playing {self.episodes:,} episodes", len(_PHRASES) * kept)
        objects = (*world.objects, "agent")  # which stands in for the second object, where there is but one
        phrases = [phrase.format(*objects) for phrase in _PHRASES]
        tasks = {phrase: (library.task(phrase),) for phrase in phrases}
        tables = tables_of([task for (task,) in tasks.values()])
        keys = jax.random.split(key, (len(tasks), self.episodes))
        with doing(f"playing three phrases from {self.episodes:,} starts each", self.json):
            played = jax.device_get(rollouts(world, library.gpi(), tables, library.guides_of(tables), keys))
        ends = zip(played.success[:, None], played.steps[:, None], strict=True)
        own = [summarise(success, steps, world.max_steps) for success, steps in ends]
        results = {"zero_shot": dict(zip(tasks, own, strict=True))}
        with doing("playing the same with the oracle and at random", self.json):
            results |= evaluate_references(world, tasks, key, self.episodes)
        with doing("filming", self.json):
            films = [
                film_of(world, phrase, jax.tree.map(lambda leaf, i=i: leaf[i], played), task, WORTHWHILE)
                for i, (phrase, (task,)) in enumerate(tasks.items())
            ]
            save_gif(self.out / "demo.gif", films)
            save_contact_sheet(self.out / "demo.png", films)
        if self.json:
            files = [str(self.out / name) for name in ("demo.gif", "demo.png")]
            return print_json(as_json(results) | {"files": files})
        rows = [[p, str(tasks[p][0]), *(x for by in results.values() for x in rate_and_steps(by[p]))] for p in tasks]
        columns = ["phrase", "understood as", "success", "steps", "oracle", "steps", "random play", "steps"]
        limit = f"steps: a failure counts as {world.max_steps}"
        print_table(f"Goals the library never saw, {self.episodes} random starts each; {limit}", columns, rows, 2)
        print(f"\nWatch {self.out / 'demo.gif'}, or look at {self.out / 'demo.png'}. Then try your own goals:")
        print(_NEXT)
