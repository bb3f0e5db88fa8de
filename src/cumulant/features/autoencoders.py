"""Autoencoders whose code may be disentangled: keypoints, β-VAE, and a VAE that compares frames one action apart.

Each has `encode`: frame [size, size, 3] → z [d], `decode`: z → image [size, size, 3] in [0, 1], and `loss` of a pair of
frames. None of them sees an action, a reward or a state.
"""

from functools import partial
from typing import Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, PyTree, UInt8

Frame = UInt8[Array, "size size 3"]
Image = Float[Array, "size size 3"]


def image_of(frame: Frame) -> Image:
    """Bytes as numbers in [0, 1]."""
    return frame.astype(jnp.float32) / 255


def _convolutions(
    channels: list[int], kernels: list[int], strides: list[int], key: PRNGKeyArray
) -> list[eqx.nn.Conv2d]:
    """Layers that pass on as much as they get (He et al. 2015): with less, maps begin flat and stay so for long."""
    scale = jax.nn.initializers.he_normal(in_axis=1, out_axis=0)

    def layer(inputs: int, outputs: int, kernel: int, stride: int, key: PRNGKeyArray) -> eqx.nn.Conv2d:
        plain = eqx.nn.Conv2d(inputs, outputs, kernel, stride, "SAME", key=key)
        start = (scale(key, plain.weight.shape), jnp.zeros((outputs, 1, 1)))
        return eqx.tree_at(lambda conv: (conv.weight, conv.bias), plain, start)

    keys = jax.random.split(key, len(kernels))
    return [layer(*each) for each in zip(channels[:-1], channels[1:], kernels, strides, keys, strict=True)]


def _through(layers: list[eqx.nn.Conv2d], x: Float[Array, "c h w"]) -> Float[Array, "c2 h2 w2"]:
    """All layers, with a nonlinearity between one and the next, as precisely as their weights are."""
    x = x.astype(layers[0].weight.dtype)
    for layer in layers[:-1]:
        x = jax.nn.leaky_relu(_convolved(layer, x), 0.1)
    return _convolved(layers[-1], x).astype(jnp.float32)


def _convolved(layer: eqx.nn.Conv2d, x: Float[Array, "c h w"]) -> Float[Array, "c2 h2 w2"]:
    """What the layer gives. On a CPU channels come last meanwhile: in a compiled loop that is four times as fast."""
    if jax.default_backend() != "cpu":
        return layer(x)
    assert layer.bias is not None
    order = jax.lax.ConvDimensionNumbers((0, 3, 1, 2), (3, 2, 0, 1), (0, 3, 1, 2))
    last, weight = jnp.moveaxis(x, 0, -1)[None], jnp.transpose(layer.weight, (2, 3, 1, 0))
    y = jax.lax.conv_general_dilated(last, weight, layer.stride, "SAME", dimension_numbers=order)
    return jnp.moveaxis(y[0], -1, 0) + layer.bias


def _places(size: int, margin: float = 0.0) -> tuple[Float[Array, "1 size"], Float[Array, "size 1"]]:
    """Where the cells of a map lie: x to the right, y upwards as in the world, reaching beyond [0, 1] by a margin."""
    centres = -margin + (1 + 2 * margin) * (jnp.arange(size) + 0.5) / size
    return centres[None, :], 1 - centres[:, None]


class Keypoints(eqx.Module):
    """Every two latents are a point: the mean of a map of attention. All that the decoder gets is a blob there.

    So a code can say where something is, and nothing else. The maps reach beyond the frame: a point that sits beside a
    small sprite would otherwise lose it at the wall.
    """

    encoder: list[eqx.nn.Conv2d]
    contrast: eqx.nn.GroupNorm  # of each map
    decoder: list[eqx.nn.Conv2d]
    size: int = eqx.field(static=True)

    _margin = 1 / 8  # of the frame, on each side of it
    _blob = 0.07
    _contrast = 6.0  # of a map, in standard deviations, at first
    _motion = 5.0  # how much more a pixel counts that the action changed

    def __init__(self, size: int, latents: int, width: int, key: PRNGKeyArray):
        """`latents` is twice the number of keypoints."""
        key_encoder, key_decoder = jax.random.split(key)
        points = latents // 2
        self.encoder = _convolutions([3, width, width, width, points], [5] * 4, [2, 1, 1, 1], key_encoder)
        contrast = eqx.nn.GroupNorm(points, points)  # each map by itself
        self.contrast = eqx.tree_at(lambda norm: norm.weight, contrast, jnp.full(points, self._contrast))
        self.decoder = _convolutions([points, width, width, width, 3 * 4], [5] * 4, [1] * 4, key_decoder)
        # An image that is blank at first: the noise of a random one would teach the points to stand still.
        self.decoder[-1] = eqx.tree_at(lambda conv: conv.weight, self.decoder[-1], replace_fn=jnp.zeros_like)
        self.size = size

    def encode(self, frame: Frame) -> Float[Array, " d"]:
        """The keypoints' x and y: [size, size, 3] → [d]."""
        beyond = round(self._margin * self.size)
        image = jnp.pad(image_of(frame) - 0.5, ((beyond, beyond), (beyond, beyond), (0, 0)), "edge")
        maps = self.contrast(_through(self.encoder, jnp.moveaxis(image, -1, 0)))
        attention = jax.nn.softmax(maps.reshape(len(maps), -1)).reshape(maps.shape)
        x, y = _places(maps.shape[-1], beyond / self.size)
        return jnp.stack([(attention * x).sum((1, 2)), (attention * y).sum((1, 2))], axis=1).reshape(-1)

    def decode(self, z: Float[Array, " d"]) -> Image:
        """An image from blobs at the keypoints, at half the resolution, four pixels a cell: [d] → [size, size, 3]."""
        half = self.size // 2
        x, y = _places(half)
        point = z.reshape(-1, 2)[:, :, None, None]
        blobs = jnp.exp(-((x - point[:, 0]) ** 2 + (y - point[:, 1]) ** 2) / (2 * self._blob**2))
        cells = _through(self.decoder, blobs).reshape(3, 2, 2, half, half)
        return jnp.einsum("cabhw->hawbc", cells).reshape(self.size, self.size, 3)

    def loss(self, before: Frame, after: Frame, key: PRNGKeyArray) -> Float[Array, ""]:
        """The mean squared error of both images, each from its own points; more where the two differ.

        What moves is what can be controlled, and it may be small.
        """
        weight = 1 + self._motion * (before != after).any(axis=-1, keepdims=True)
        errors = [self.decode(self.encode(frame)) - image_of(frame) for frame in (before, after)]
        return jnp.mean(weight * jnp.square(jnp.stack(errors)))


class Vae(eqx.Module):
    """A β-VAE with a spatial-broadcast decoder; `adaptive` makes it an Ada-GVAE, which learns from pairs.

    Of two frames one action apart, the latents that differ least are taken to be the same, and are averaged.
    """

    encoder: list[eqx.nn.Conv2d]
    posterior: list[eqx.nn.Linear]
    decoder: list[eqx.nn.Conv2d]
    beta: float = eqx.field(static=True)
    adaptive: bool = eqx.field(static=True)
    size: int = eqx.field(static=True)

    _noise = 0.1  # the standard deviation of a pixel about its reconstruction

    def __init__(self, size: int, latents: int, width: int, beta: float, adaptive: bool, key: PRNGKeyArray):
        """`latents` latents with a unit Gaussian prior."""
        keys = jax.random.split(key, 4)
        self.encoder = _convolutions([3, width, width, 2 * width, 2 * width], [4] * 4, [2] * 4, keys[0])
        flat = 2 * width * (-(-size // 16)) ** 2
        self.posterior = [eqx.nn.Linear(flat, 256, key=keys[1]), eqx.nn.Linear(256, 2 * latents, key=keys[2])]
        self.decoder = _convolutions([latents + 2, width, width, width, 3], [3] * 4, [1] * 4, keys[3])
        self.beta, self.adaptive, self.size = beta, adaptive, size

    def _posterior(self, frame: Frame) -> tuple[Float[Array, " d"], Float[Array, " d"]]:
        """The mean and the logarithm of the variance of every latent."""
        x = _through(self.encoder, jnp.moveaxis(image_of(frame) - 0.5, -1, 0)).reshape(-1)
        for layer in self.posterior:
            x = layer(jax.nn.leaky_relu(x, 0.1))
        mean, log_variance = jnp.split(x, 2)
        return mean, jnp.clip(log_variance, -10, 4)

    def encode(self, frame: Frame) -> Float[Array, " d"]:
        """The posterior's mean: [size, size, 3] → [d]."""
        return self._posterior(frame)[0]

    def decode(self, z: Float[Array, " d"]) -> Image:
        """The code at every pixel, beside the pixel's place, through convolutions: [d] → [size, size, 3]."""
        places = [2 * place - 1 for place in _places(self.size)]
        spread = [jnp.broadcast_to(part, (self.size, self.size)) for part in (*z, *places)]
        return jnp.moveaxis(_through(self.decoder, jnp.stack(spread)), 0, -1)

    def loss(self, before: Frame, after: Frame, key: PRNGKeyArray) -> Float[Array, ""]:
        """The negative evidence bound, its divergence weighted by β, a pixel's share; of both frames, if adaptive."""
        if not self.adaptive:
            return self._bound(before, *self._posterior(before), key)
        codes = shared(self._posterior(before), self._posterior(after))
        bounds = zip((before, after), codes, jax.random.split(key), strict=True)
        return jnp.stack([self._bound(frame, *code, key) for frame, code, key in bounds]).mean()

    def _bound(
        self, frame: Frame, mean: Float[Array, " d"], log_variance: Float[Array, " d"], key: PRNGKeyArray
    ) -> Float[Array, ""]:
        z = mean + jnp.exp(0.5 * log_variance) * jax.random.normal(key, mean.shape)
        misfit = ((self.decode(z) - image_of(frame)) ** 2).sum() / (2 * self._noise**2)
        divergence = 0.5 * (jnp.exp(log_variance) + mean**2 - 1 - log_variance).sum()
        return (misfit + self.beta * divergence) / frame.size


def shared(first: tuple[Array, Array], second: tuple[Array, Array]) -> list[tuple[Array, Array]]:
    """Two posteriors, each a mean [d] and the logarithm of a variance [d], after sharing what is the same (Ada-GVAE).

    The latents whose posteriors differ by less than half of the range of differences are averaged.
    """
    (mean, log_variance), (mean2, log_variance2) = first, second
    variance, variance2 = jnp.exp(log_variance), jnp.exp(log_variance2)
    difference = 0.5 * (variance / variance2 + (mean2 - mean) ** 2 / variance2 - 1 + log_variance2 - log_variance)
    same = difference < 0.5 * (difference.max() + difference.min())
    middle, spread = 0.5 * (mean + mean2), jnp.log(0.5 * (variance + variance2))
    return [(jnp.where(same, middle, m), jnp.where(same, spread, v)) for m, v in (first, second)]


Autoencoder = Keypoints | Vae


@runtime_checkable
class Decoder(Protocol):
    """The half that makes images."""

    def decode(self, z: Float[Array, " d"]) -> Image:
        """[d] → [size, size, 3]."""


def in_half_precision(autoencoder: Autoencoder) -> Autoencoder:
    """The same, for encoding alone: its convolutions in half precision, which a GPU's tensor cores are made for."""
    return eqx.tree_at(lambda a: a.encoder, autoencoder, replace_fn=partial(jax.tree.map, _half))


def _half(leaf: PyTree) -> PyTree:
    return leaf.astype(jnp.float16) if eqx.is_inexact_array(leaf) else leaf
