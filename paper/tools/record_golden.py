"""Record trajectories of the original Spriteworld for tests/golden/.

    pip install -e './paper[peers]' && python paper/tools/record_golden.py

Both worlds agree on plain moves and on carries at full step, away from walls. So actions are drawn among those that
keep every sprite off the walls, with no carry where the agent stands within a hundredth of an outline's size of that
outline (the original's circle is a polygon of 30 sides).
"""

from pathlib import Path
from typing import Any

import numpy as np

from cumulant.worlds.shapes import signed_distance
from cumulant.worlds.spriteworld import Spriteworld
from cumulant_paper import peers

FOLDER = Path(__file__).parents[2] / "tests" / "golden"
SCENES = (("square", "circle"), ("square", "circle", "triangle", "star", "pentagon", "hexagon"))
EPISODES, STEPS = 24, 50
HEADINGS = {0: 0, 1: 2, 2: 1, 3: 3}  # ours (up, down, left, right) → the original's (up, left, down, right)
MOTIONS = np.array([(0, 1), (0, -1), (-1, 0), (1, 0)])


def positions_of(sprites: list) -> np.ndarray:
    """The agent's and the objects' positions in our order: [agent and objects, 2]."""
    return np.array([sprite.position.copy() for sprite in reversed(sprites)])


def draw_action(world: Spriteworld, positions: np.ndarray, rng: np.random.Generator) -> int:
    """A random action after which nothing touches a wall, and whose carry does not hang on how round a circle is."""
    while True:
        action = int(rng.integers(8))
        reach = positions + world.step_size * MOTIONS[action % 4]
        offsets = (positions[0] - positions[1:]) / world.half_extent
        margins = [abs(float(signed_distance(s, *o))) for s, o in zip(world.objects, offsets, strict=True)]
        if ((reach > 0.01) & (reach < 0.99)).all() and (action < 4 or min(margins) > 0.01):
            return action


def record(module: Any, world: Spriteworld, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """One episode: actions [t] and positions [t + 1, agent and objects, 2]."""
    start = rng.uniform(0.2, 0.8, (len(world.sprites), 2))
    start[0] = start[rng.integers(1, len(start))] + rng.uniform(-0.05, 0.05, 2)  # begin on an object, so carries happen
    environment = peers.environment(module, world)
    environment.reset()
    environment._sprites = peers.sprites_at(module, world, start)
    actions, positions = [], [positions_of(environment._sprites)]
    for _ in range(STEPS):
        action = draw_action(world, positions[-1], rng)
        environment.step([action // 4, HEADINGS[action % 4]])
        actions.append(action)
        positions.append(positions_of(environment._sprites))
    return np.array(actions, np.int8), np.array(positions)


def main() -> None:
    """Write one file a scene."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    module, rng = peers.load(), np.random.default_rng(0)
    for objects in SCENES:
        world = Spriteworld(objects, step_size=0.07, drag_ratio=1.0)
        actions, positions = zip(*[record(module, world, rng) for _ in range(EPISODES)], strict=True)
        path = FOLDER / f"spriteworld_{len(objects)}_objects.npz"
        np.savez_compressed(path, objects=objects, step_size=0.07, actions=actions, positions=positions)
        carried = (np.abs(np.diff(np.array(positions)[:, :, 1:], axis=1)) > 0).any(-1).any(-1).mean()
        print(f"{path.name}: {EPISODES} episodes of {STEPS} steps, {carried:.0%} of them carries")


if __name__ == "__main__":
    main()
