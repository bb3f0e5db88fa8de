"""The outlines of sprites: one signed distance decides what is drawn and what can be dragged.

Every shape is centred on the origin and fits the square [-1, 1]², so a sprite of half-extent h is a shape scaled by h.
"""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float


def _ring(radii: list[float], start: float) -> np.ndarray:
    """Vertices at equal angles from `start` (radians), one at each radius: [vertices, 2]."""
    angles = start + 2 * np.pi * np.arange(len(radii)) / len(radii)
    return np.array(radii)[:, None] * np.stack([np.cos(angles), np.sin(angles)], axis=1)


_UP = np.pi / 2
_ARM = 0.4  # half the width of the cross's bars
_QUARTER_TURNS = [np.linalg.matrix_power(np.array([(0, 1), (-1, 0)]), n) for n in range(4)]
_POLYGONS = {
    "triangle": _ring([1.0] * 3, _UP),
    "star": _ring([1.0, 0.5] * 5, _UP),
    "diamond": _ring([1.0] * 4, 0.0),
    "pentagon": _ring([1.0] * 5, _UP),
    "hexagon": _ring([1.0] * 6, 0.0),
    "cross": np.concatenate(  # a quarter, turned four times
        [np.array([(1, -_ARM), (1, _ARM), (_ARM, _ARM)]) @ turn for turn in _QUARTER_TURNS]
    ),
}
SHAPES = ("square", "circle", *_POLYGONS)


def outline(shape: str) -> list[tuple[float, float]]:
    """A shape's corners, for those who draw by other means; none for a circle, which has radius 1."""
    if shape == "square":
        return [(-1.0, -1.0), (1.0, -1.0), (1.0, 1.0), (-1.0, 1.0)]
    return [(float(x), float(y)) for x, y in _POLYGONS.get(shape, ())]


def signed_distance(shape: str, x: Float[Array, "*#points"], y: Float[Array, "*#points"]) -> Float[Array, "*points"]:
    """Distance from each point to the shape's edge, negative inside: [...] → [...]."""
    if shape == "circle":
        return jnp.sqrt(x * x + y * y) - 1
    if shape == "square":
        return jnp.maximum(jnp.abs(x), jnp.abs(y)) - 1  # corners measured by the larger axis: enough for one pixel
    return _polygon_distance(_POLYGONS[shape], x, y)


def _polygon_distance(
    vertices: np.ndarray, x: Float[Array, "*#points"], y: Float[Array, "*#points"]
) -> Float[Array, "*points"]:
    """Distance to the nearest edge, signed by whether a ray to the right crosses an odd number of edges."""
    squared = jnp.full(jnp.broadcast_shapes(x.shape, y.shape), jnp.inf)
    inside = jnp.zeros(squared.shape, bool)
    for (ax, ay), (bx, by) in zip(vertices, np.roll(vertices, -1, axis=0), strict=True):
        edge_x, edge_y = float(bx - ax), float(by - ay)
        from_x, from_y = x - float(ax), y - float(ay)
        along = jnp.clip((from_x * edge_x + from_y * edge_y) / (edge_x**2 + edge_y**2), 0, 1)
        squared = jnp.minimum(squared, (from_x - along * edge_x) ** 2 + (from_y - along * edge_y) ** 2)
        if abs(edge_y) > 1e-9:  # a level edge is never crossed by a level ray
            spans = (y >= float(ay)) != (y >= float(by))
            inside ^= spans & (from_x < from_y * (edge_x / edge_y))
    return jnp.where(inside, -1.0, 1.0) * jnp.sqrt(squared)
