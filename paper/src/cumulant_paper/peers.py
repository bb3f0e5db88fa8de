"""The original Spriteworld (google-deepmind/spriteworld 1.0.2) on the scene of ours, to measure ours against.

Install it with the extra `peers` of `cumulant-paper`. It dates from 2019; two names that NumPy and Pillow dropped since
are given back.
"""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
import PIL.Image

from cumulant.worlds.spriteworld import Spriteworld

_SHAPE_NAMES = {"star": "star_5"}
_ANTI_ALIASING = 5  # the original's own: five pixels a side for each that is shown


class _Cast(dict):
    """What np.cast was: a dtype's name → a conversion."""

    def __missing__(self, dtype: str) -> Callable[[npt.ArrayLike], np.ndarray]:
        return lambda value: np.asarray(value, dtype)


def load() -> ModuleType:
    """Return the module `spriteworld`, made to run on a current NumPy and Pillow."""
    np.cast = _Cast()  # type: ignore[attr-defined]  # noqa: NPY201
    PIL.Image.ANTIALIAS = PIL.Image.Resampling.LANCZOS  # type: ignore[attr-defined]
    try:
        import spriteworld.action_spaces
        import spriteworld.constants
        import spriteworld.environment
        import spriteworld.factor_distributions
        import spriteworld.renderers
        import spriteworld.sprite
        import spriteworld.sprite_generators
        import spriteworld.tasks
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"{error.name} is not installed: pip install 'cumulant-paper[peers]', or leave the peer out with --no-peer"
        ) from None
    return spriteworld


def sprites_at(module: ModuleType, world: Spriteworld, positions: np.ndarray) -> list:
    """Return the original's sprites, background first and its agent last, at our positions: [agent and objects, 2]."""

    def sprite_at(name: str, xy: np.ndarray) -> Any:
        shape = _SHAPE_NAMES.get(name, name)
        furthest = float(np.abs(module.constants.SHAPES[shape]).max())  # coordinate of the outline, at scale 1
        return module.sprite.Sprite(*xy, shape=shape, scale=world.half_extent / furthest, c0=200)

    agent, *objects = positions
    scenery = [sprite_at(name, xy) for name, xy in zip(world.objects, objects, strict=True)]
    return [*reversed(scenery), module.sprite.Sprite(*agent, shape="circle", scale=0.07, c1=255)]


def environment(module: ModuleType, world: Spriteworld, image_size: int = 0) -> Any:
    """Return the original's environment on our scene, showing positions, or frames where `image_size` is given."""
    place = module.factor_distributions.Product(
        [module.factor_distributions.Continuous(axis, 0.0, 1.0) for axis in "xy"]
    )

    def start() -> list:
        spots = [place.sample() for _ in world.sprites]
        return sprites_at(module, world, np.array([(spot["x"], spot["y"]) for spot in spots]))

    positions = module.renderers.SpriteFactors(factors=("x", "y"))
    frames = module.renderers.PILRenderer((image_size, image_size), _ANTI_ALIASING)
    return module.environment.Environment(
        task=module.tasks.NoReward(),
        action_space=module.action_spaces.Embodied(step_size=world.step_size),
        renderers={"frame": frames} if image_size else {"positions": positions},
        init_sprites=start,
        max_episode_length=world.max_steps,
    )
