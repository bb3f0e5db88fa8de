"""What words mean for learnt features: which latent is the square's x, which way it points, and where a third begins.

A handful of frames, each described in words ("square top left, circle bottom, ..."), is enough: free play and its
library never see them. A regression of rewards would do as well, but needs thousands of labelled steps for every word.
"""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int


class Grounding(eqx.Module):
    """The k words' coordinates in terms of d latents."""

    latent: Int[Array, " k"]  # which latent each coordinate is read from
    edges: Float[Array, "k regions+1"]  # the latent's values at 0, 1/3, 2/3 and 1 of the coordinate; falling, if flipped
