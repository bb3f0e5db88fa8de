"""`cumulant solve`."""

import json as json_text
import math
import os
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tyro.conf import Positional

from cumulant.commands.inputs import (
    SHIPPED,
    BadInput,
    Flag,
    LibraryGiven,
    NoDefault,
    at_least,
    drawable,
    key_of,
    reward_named,
    usable_files,
)
from cumulant.commands.output import doing, on_terminal, print_json, rate_and_steps

if TYPE_CHECKING:
    from cumulant.goals.plans import Plan
    from cumulant.transfer.evaluation import Success
    from cumulant.transfer.library import Library
    from cumulant.worlds.episodes import Reward

_REWARDED = 0.5  # a reward above this is the goal
_LIKED = 0.5  # of a feature's largest weight: a bin with more is part of what is favoured
_MATTERS = 0.1  # of the largest weight of all: a feature with less does not matter


@dataclass(frozen=True)
class Solve:
    """Act on a goal at once: a phrase, or a reward function.

    A phrase may be a plan: "keep square left then agent top without agent right". A reward is learnt from labelled
    steps. Try: cumulant solve "circle top left and square not left" --gif mine.gif
    """

    phrase: NoDefault[Positional[str]] = ""  # The goal, in words.
    reward: NoDefault[str] = ""  # Or package.module:function; its goal is above 0.5.
    budget: int = 2_000  # Labelled steps for a reward.
    gpi: Literal["committed", "plain"] = "committed"  # Keep to a policy, or not.
    episodes: int = 200  # Random starts.
    seed: int = 0  # Episode i has seed + i.
    gif: NoDefault[Path | None] = None  # Write an episode here.
    trace: NoDefault[Path | None] = None  # Write the first episode here, as JSON.
    json: Flag = False  # One JSON object on stdout, and nothing else.
    using: LibraryGiven = SHIPPED

    def run(self) -> None:
        """Find weights, act, and print how often it worked."""
        with on_terminal("loading", self.json):
            import jax

            from cumulant.config import check_memory
            from cumulant.goals.plans import Plan, tables_of
            from cumulant.storage import write_whole
            from cumulant.transfer.evaluation import summarise
            from cumulant.worlds.episodes import episode_keys, play_many, rollouts

            self._check()
            library = self.using.load()
        world = library.seen
        if self.gif:
            drawable(world)
        if self.phrase and library.why_no_words:
            raise BadInput(f"{library.why_no_words}: give --reward")
        asked = library.goal(self.phrase) if self.phrase else None
        plan = asked if isinstance(asked, Plan) else None
        limit = world.max_steps * (len(plan.stages) if plan else 1)
        kept = 4 * self.episodes * limit * len(world.feature_names)  # bytes: where everything was
        check_memory(f"playing {self.episodes:,} episodes", kept)
        keys, committed = episode_keys(self.seed, self.episodes), self.gpi == "committed"
        if asked is not None:
            tables = tables_of([asked])
            guides = library.guides_of(tables)
            named: dict[str, Any] = {"task": self.phrase, "canonical": str(asked)}
            if remark := library.remark(asked):
                named["remark"] = remark

            def played() -> Any:  # a program that serves the next phrase too
                return rollouts(world, library.gpi(committed), tables, guides, keys)
        else:
            reward = reward_named(self.reward, library)
            w, named = self._learn(library, reward)

            def played() -> Any:
                policy = library.policy(w, committed)
                return jax.jit(partial(play_many, world, policy, lambda state: reward(state) > _REWARDED))(keys)

        with doing(f"playing {self.episodes:,} episodes", self.json):
            episodes = played()
            success, steps = jax.device_get((episodes.success, episodes.steps))
            result = summarise(success[None], steps[None], limit)
        if plan:
            ends = jax.device_get(episodes.progress)
            named |= {"stages": _stages(plan, ends.stage), "violated": float(ends.violated.mean())}
        if self.trace:
            write_whole(self.trace, json_text.dumps(_trace(world, episodes)).encode())
        if self.gif:
            from cumulant.worlds.films import WORTHWHILE, film_of, save_gif

            save_gif(self.gif, [film_of(world, named["task"], episodes, asked, WORTHWHILE)])
        report = named | {
            name: getattr(result, name) for name in ("success", "ci95", "mean_steps", "steps_or_limit", "episodes")
        }
        if self.json:
            return print_json(report)
        self._tell(report, result, limit)

    def _check(self) -> None:
        """Refuse what cannot be done, before anything is loaded."""
        from cumulant.config import check_seed
        from cumulant.transfer.evaluation import check_episodes
        from cumulant.transfer.inference import check_budget

        if bool(self.phrase) == bool(self.reward):
            raise BadInput("give a phrase or --reward package.module:function, one of the two")
        at_least("episodes", self.episodes, 1)
        at_least("budget", self.budget, 1)
        check_episodes(self.episodes)
        check_seed(self.seed)
        check_budget(self.budget)
        if self.gif and self.gif.suffix.lower() not in ("", ".gif"):
            raise BadInput(f"--gif writes a GIF: let the name end in .gif, which {self.gif.name} does not")
        if self.gif and self.trace and os.path.realpath(self.gif) == os.path.realpath(self.trace):
            raise BadInput(f"--gif and --trace are both {self.gif}: give each a file of its own")
        usable_files(self.gif, self.trace)

    def _learn(self, library: "Library", reward: "Reward") -> tuple[Any, dict[str, Any]]:
        """Learn a reward from labelled steps: return its weights [1, k, m], and what there is to say of it."""
        import jax

        from cumulant.transfer.reward_models import MODELS

        with doing(f"learning the reward from {self.budget:,} labelled steps", self.json):
            belief = library.understand_reward(reward, jax.random.fold_in(key_of(self.seed), 0), self.budget)
        if not belief.w.any():
            steps = f"{self.budget:,} labelled steps taught nothing of {self.reward}"
            raise BadInput(f"{steps}: all earned the same, or too few did not; a larger --budget may help")
        named = {"task": self.reward, "canonical": _meaning(library, belief.w), "budget": self.budget}
        sure, explained = float(belief.sure[0]), float(belief.explained[0])
        return belief.w, named | {"model": MODELS[int(belief.boxes[0])], "sure": sure, "explained": explained}

    def _tell(self, report: dict[str, Any], result: "Success", limit: int) -> None:
        """Print the report, for people to read."""
        # A sum has no goal of its own, but for what it favours most.
        asked = "understood as" if report.get("model", "conjunction") == "conjunction" else "it goes for"
        print(f"{asked}: {report['canonical']}")
        if "remark" in report:
            print(f"note: {report['remark']}")
        if "model" in report:
            print(f"as far as these steps tell, a {report['model']}, {_percent(report['sure'])} sure", end="")
            print(f"; it explains {_percent(report['explained'])} of the reward's variance")
        for i, stage in enumerate(report.get("stages", ())):
            print(f"  {i + 1}. {stage['canonical']}: reached in {stage['reached']:.3f}")
        rate, steps = rate_and_steps(result)
        counted = "" if result.success == 1 else f" (a failure counts as {limit})"
        print(f"success {rate} over {result.episodes} starts, {steps} steps{counted}")
        if "violated" in report:
            print(f"violated in {report['violated']:.3f}: what to avoid was entered, or what to keep was lost")
        if self.gif:
            print(f"watch {self.gif}")


def _percent(share: float) -> str:
    """Return a share in percent, rounded down: never "100 %" of what is not quite all."""
    return f"{math.floor(100 * share)} %"


def _stages(plan: "Plan", current: Any) -> list[dict[str, Any]]:
    """Return a plan's stages in words, with the share of episodes that reached each.

    Args:
        plan: The plan.
        current: The stages in which the episodes ended, [episodes].

    """
    return [
        {
            "canonical": str(stage),
            "reach": str(stage.reach),
            "avoid": None if stage.avoid is None else str(stage.avoid),
            "keep": None if stage.keep is None else str(stage.keep),
            "reached": float((current > i).mean()),
        }
        for i, stage in enumerate(plan.stages)
    ]


def _trace(world: Any, episodes: Any) -> dict[str, Any]:
    """Return the first of several episodes until its end, as JSON holds it: coordinates [t + 1, k], actions [t]."""
    import jax

    first = jax.tree.map(lambda leaf: leaf[0], episodes)
    steps = int(first.steps)
    places = jax.vmap(world.features)(first.states)
    return {"observations": places[: steps + 1].tolist(), "actions": first.actions[:steps].tolist()}


def _meaning(library: "Library", w: Any) -> str:
    """Return the conjunction of bins that learnt weights [1, k, m] favour most, for people to read."""
    import numpy as np

    from cumulant.goals.tasks import Task

    rows, names = np.asarray(w)[0], library.feature_names
    liked = {
        i: np.flatnonzero(row >= _LIKED * row.max()).tolist()
        for i, row in enumerate(rows)
        if row.max() > max(_MATTERS * rows.max(), 0)
    }
    if library.knows_words and not library.grounding:
        return str(Task.where(names, {names[i]: bins for i, bins in liked.items()}, library.config.bins).coarsest())
    conditions = [f"{names[i]} {' or '.join(library.bin_names[i][j] for j in bins)}" for i, bins in liked.items()]
    return " and ".join(conditions) or "anything"
