"""Features for tests, in the place of learnt ones: where each sprite's colour lies, in an order of its own."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from cumulant.features.grounding import Grounding, ground
from cumulant.goals.bins import bin_index
from cumulant.worlds.pixels import PixelSpriteworld
from cumulant.worlds.renderer import default_look

ORDER, FLIP = (3, 0, 6, 5, 1, 4, 2), (True, False, False, True, True, False, False)  # of 7 latents, where k is 6


class ColourEncoder(eqx.Module):
    order: Int[Array, " d"]  # the coordinate that each latent follows; from k on, the mean of them all
    flip: Bool[Array, " d"]
    grounding: Grounding | None
    world: PixelSpriteworld = eqx.field(static=True)

    def __call__(self, frame) -> Float[Array, " d"]:
        look, centres = default_look(self.world), (jnp.arange(len(frame)) + 0.5) / len(frame)
        colours = jnp.stack([look.agent, *look.objects])
        distance = ((frame / 255 - colours[:, None, None]) ** 2).sum(axis=-1)  # [sprites, y, x]
        mass = jax.nn.softmax(-40 * distance, axis=(1, 2))
        x, y = (mass * centres).sum(axis=(1, 2)), (mass * centres[::-1, None]).sum(axis=(1, 2))
        places = jnp.stack([x, y], axis=1).reshape(-1)
        latents = jnp.append(places, places.mean())[self.order]
        return jnp.where(self.flip, 1 - latents, latents)


def colour_encoder(world, order=ORDER, flip=FLIP, grounded=True):
    """With as many labelled frames as a person might describe, if grounded."""
    encoder = ColourEncoder(jnp.array(order, jnp.int32), jnp.array(flip), None, world)
    if not grounded:
        return encoder

    @jax.jit
    @jax.vmap
    def frame(key):
        state = world.reset(key)
        return encoder(world.observe(state)), bin_index(world.features(state), 3)

    f, thirds = frame(jax.random.split(jax.random.key(0), 64))
    return eqx.tree_at(
        lambda e: e.grounding, encoder, ground(np.asarray(f), np.asarray(thirds)), is_leaf=lambda leaf: leaf is None
    )
