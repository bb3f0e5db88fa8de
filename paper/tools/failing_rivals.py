"""How a rival fails: it learns at a laptop's size, plays, and its failing episodes are sorted by what happened.

python paper/tools/failing_rivals.py her [--env-steps 2560000] [--width 256] [--batch 256] [--episodes 64] [--seed 1000]
"""

import argparse
import time
from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from cumulant.commands.output import print_table
from cumulant.goals.tasks import tables_of
from cumulant.sweeps.judging import TUNING_SEED, Evaluation
from cumulant.worlds.episodes import rollouts
from cumulant_paper.baselines.playing import Exploring
from cumulant_paper.judging import guides_from_words
from cumulant_paper.rivals import RIVALS, Rival

KINDS = ("object_easy", "object_hard", "conjunction")
LAST, FEW = 20, 4  # steps at the end, and different states among them, where somebody goes to and fro


def main() -> None:
    """Learn, play, sort."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rival", choices=[name for name, part in RIVALS.items() if isinstance(part, Rival)])
    for name, default in {"env-steps": 2_560_000, "width": 256, "batch": 256, "episodes": 64}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--seed", type=int, default=TUNING_SEED, help="of training")
    parser.add_argument("--epsilon", type=float, help="random actions when playing, if not the rival's own")
    asked = parser.parse_args()
    part = RIVALS[asked.rival]
    assert isinstance(part, Rival)
    world, method = part.world, part.method
    assert isinstance(part.config, Exploring)
    config = replace(part.config, env_steps=asked.env_steps, width=asked.width, batch=asked.batch)
    begun = time.perf_counter()
    learnt = eqx.filter_jit(method.train)(
        world, config, method.start(world, config, jax.random.key(asked.seed)), jnp.int32(config.updates)
    )
    jax.block_until_ready(learnt.update)
    print(f"{config.updates:,} updates in {time.perf_counter() - begun:.0f} s, compiling included")
    acting = config if asked.epsilon is None else replace(config, epsilon=asked.epsilon)
    player = method.player(acting, learnt, jax.random.key(1))
    kinds, tasks = Evaluation(tasks_per_class=4, episodes=asked.episodes).tasks(world)
    rows = []
    for kind in KINDS:
        tables = tables_of([task for task, its in zip(tasks, kinds, strict=True) if its == kind])
        keys = jax.random.split(jax.random.key(TUNING_SEED), (len(tables), asked.episodes))
        played = rollouts(world, player, tables, guides_from_words(player)(tables), keys)
        features = np.asarray(jax.vmap(jax.vmap(jax.vmap(world.features)))(played.states))  # [tasks, episodes, t, k]
        rows.append([kind, *sorted_out(features, np.asarray(tables)[:, 0], np.asarray(played.success))])
    columns = [
        "",
        "solved",
        "of the failures: moved nothing asked for",
        "had all, never at once",
        "to and fro at the end",
    ]
    print_table(f"{asked.rival}, from words", columns, rows)


def sorted_out(features: np.ndarray, clauses: np.ndarray, success: np.ndarray) -> list[str]:
    """The share solved and, of the episodes that fail, the shares of each kind; an episode may be of several."""
    m = clauses.shape[-1]
    asks = ~np.all(clauses, axis=2)  # [tasks, k]
    bins = np.minimum((features * m).astype(int), m - 1)
    met = np.take_along_axis(clauses[:, None, None], bins[..., None], axis=4)[..., 0] | ~asks[:, None, None]
    moved = (np.ptp(features, axis=2) > 0) & asks[:, None]
    last = features[:, :, -LAST:].round(4)
    different = np.array([[len(np.unique(episode, axis=0)) for episode in task] for task in last])
    failing = ~success
    found = {
        "still": ~moved.any(axis=2),
        "in turn": met.any(axis=2).all(axis=2),
        "to and fro": different <= FEW,
    }
    return [
        f"{success.mean():.3f}",
        *(f"{kind[failing].mean():.2f}" if failing.any() else "-" for kind in found.values()),
    ]


if __name__ == "__main__":
    main()
