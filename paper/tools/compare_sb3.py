"""Steps and seconds to 0.9 success on one easy and one hard task: Stable-Baselines3's DQN, our DQN, and GPI.

All on this machine's CPU, one after another. Each learns until 0.9 of 100 episodes succeed, looked at every 5,000
steps (GPI: after 250, 500, 1,000, ... labelled steps). Time spent on looking does not count; compiling is told apart.
"""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from stable_baselines3 import DQN

import cumulant
import cumulant.worlds.gymnasium_envs
from cumulant.freeplay.in_step import InStep
from cumulant.goals.tasks import reached, tables_of
from cumulant.storage import write_whole
from cumulant.transfer.evaluation import evaluate
from cumulant_paper.baselines import dqn

TASKS = {"easy": "square top", "hard": "square top left"}
GOAL, EPISODES, LOOK_EVERY = 0.9, 100, 5_000


def sb3(phrase: str, steps: int, seed: int) -> dict[str, Any]:
    """Its defaults, but for what helps here: our DQN's width, discount, batch, exploration and updates per step."""
    env = gymnasium.make("cumulant/Spriteworld-v0", task=phrase)
    model = DQN(
        "MlpPolicy",
        env,
        learning_rate=1e-3,
        buffer_size=200_000,
        learning_starts=1_000,
        batch_size=256,
        gamma=0.95,
        train_freq=4,
        target_update_interval=1_000,
        policy_kwargs={"net_arch": [256, 256]},
        seed=seed,
        device="cpu",
    )

    # Learning in parts would begin its own schedule anew with each: random actions fall to 0.05 over 50,000 steps.
    model.exploration_schedule = lambda _: max(0.05, 1 - 0.95 * model.num_timesteps / 50_000)

    def learn(until: int) -> None:
        model.learn(until - model.num_timesteps, reset_num_timesteps=False, progress_bar=False)

    def look() -> float:
        envs = gymnasium.make_vec("cumulant/Spriteworld-v0", num_envs=EPISODES, task=phrase)
        obs, _ = envs.reset(seed=seed)
        solved, rng = np.zeros(EPISODES, bool), np.random.default_rng(seed)
        for _ in range(100):
            greedy, _ = model.predict(obs, deterministic=True)
            explore = rng.uniform(size=EPISODES) < 0.05  # as our DQN is looked at
            obs, _, terminated, _, _ = envs.step(np.where(explore, rng.integers(8, size=EPISODES), greedy))
            solved |= terminated
        return float(solved.mean())

    return _until_solved(learn, look, range(LOOK_EVERY, steps + 1, LOOK_EVERY))


def our_dqn(phrase: str, steps: int, seed: int) -> dict[str, Any]:
    """One run of our DQN, compiled."""
    world, config = cumulant.Spriteworld(), dqn.Dqn()
    task = cumulant.parse(phrase, world.feature_names)

    def train(table: Any, learning: Any, until: Any) -> tuple[Any, None]:
        return dqn.train(world, config, table, learning, until), None

    run = InStep(train, list(tables_of([task])), [dqn.start(world, config, jax.random.key(seed))])

    def look() -> float:
        network = jax.tree.map(lambda leaf: leaf[0], run.runs.networks)
        maker = dqn.EpsilonGreedy(network, config.epsilon)
        return evaluate(world, maker, {"task": [task]}, jax.random.key(seed), EPISODES)["task"].success

    found = _until_solved(
        lambda until: run.advance(until // config.num_envs), look, range(LOOK_EVERY, steps + 1, LOOK_EVERY)
    )
    return found | {"compile_s": run.compile_seconds}


def gpi(phrase: str, steps: int, seed: int) -> dict[str, Any]:
    """The shipped library, which never saw a reward, from a reward function alone."""
    library = cumulant.Library.load()
    world, task = library.world, library.task(phrase)
    table = jnp.asarray(task.table())
    learnt: dict[str, Any] = {"compile_s": 0.0}

    def learn(budget: int) -> None:
        def reward(state: Any) -> Any:
            return reached(table, world.features(state)).astype(float)

        program = jax.jit(lambda key: library.learn_reward(reward, key, budget))
        begun = time.perf_counter()
        compiled = program.lower(jax.random.key(seed)).compile()
        learnt["compile_s"] += time.perf_counter() - begun
        learnt["w"] = jax.block_until_ready(compiled(jax.random.key(seed)))

    def look() -> float:
        guides = learnt["w"][None]
        return evaluate(world, library.gpi(), {"task": [task]}, jax.random.key(seed), EPISODES, guides)["task"].success

    found = _until_solved(learn, look, [250 * 2**i for i in range(9)])
    return found | {"seconds": found["seconds"] - learnt["compile_s"], "compile_s": learnt["compile_s"]}


def _until_solved(learn: Callable[[int], Any], look: Callable[[], float], points: Any) -> dict[str, Any]:
    seconds, curve = 0.0, []
    for steps in points:
        begun = time.perf_counter()
        learn(steps)
        seconds += time.perf_counter() - begun
        curve.append((steps, look()))
        if curve[-1][1] >= GOAL:
            break
    return {"solved": curve[-1][1] >= GOAL, "steps": curve[-1][0], "seconds": seconds, "curve": curve}


def main() -> None:
    """Compare, print, and write the figures."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--steps", type=int, default=300_000, help="give up after so many")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--out", type=Path, default=Path("paper/results/sb3.json"))
    given = options.parse_args()
    methods = {"Stable-Baselines3 DQN": sb3, "our DQN": our_dqn, "our GPI, few-shot": gpi}
    report: dict[str, Any] = {"goal": GOAL, "seed": given.seed, "tasks": {}}
    for name, phrase in TASKS.items():
        report["tasks"][name] = {"phrase": phrase}
        for method, run in methods.items():
            found = run(phrase, given.steps, given.seed)
            report["tasks"][name][method] = found
            words = "solved" if found["solved"] else "not solved"
            print(f"{phrase}: {method} {words} after {found['steps']:,} steps, {found['seconds']:.1f} s", flush=True)
    write_whole(given.out, json.dumps(report, indent=2).encode() + b"\n")


if __name__ == "__main__":
    main()
