"""Random changes of training images, each a pure function of (seed, epoch, number of the example).

An image is changed the same way whichever batch, process or resumed training it is in. Shapes: B images,
H rows, W columns, C channels; pixels are uint8.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from seqwright.data.plan import item_seed

SHIFT = 0.125  # of the height and width: the farthest that a crop moves (4 pixels of 32, He et al. 2016, 4.2)
COLOUR = 0.2  # the farthest that brightness, contrast and saturation move from 1
ERASED = (0.02, 0.2)  # share of the pixels (Zhong et al. 2020)
ERASES = 0.5  # share of the images
MIXES = 0.5  # share of the images that are mixed, with a weight from 0.5 to 1 for the image itself


class Draws:
    """Uniform numbers for each image: column k of the hashes of (seed, epoch, number)."""

    def __init__(self, seed: int, epoch: int, numbers: np.ndarray):
        seeds = [item_seed(seed, epoch, number) for number in numbers.tolist()]
        self._state = np.array(seeds, dtype=np.uint64)

    def uniform(self, low: float = 0.0, high: float = 1.0) -> np.ndarray:
        """Return the next number of each image from `low` to `high` (B,): SplitMix64 (Steele et al. 2014)."""
        self._state = self._state + np.uint64(0x9E3779B97F4A7C15)
        mixed = self._state
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
        mixed = mixed ^ (mixed >> np.uint64(31))
        return low + (high - low) * (mixed >> np.uint64(11)).astype(np.float64) / 2**53

    def below(self, limit: int) -> np.ndarray:
        """Return the next whole number of each image from 0 to limit − 1 (B,)."""
        return np.minimum((self.uniform() * limit).astype(np.int64), limit - 1)


def augmented(
    pixels: np.ndarray, kinds: Collection[str], seed: int, epoch: int, numbers: np.ndarray
) -> np.ndarray:
    """Return changed images (B, H, W, C). Every kind draws its numbers whether or not it is asked for, so
    that one more kind leaves the others as they are.
    """
    draws = Draws(seed, epoch, numbers)
    count, height, width, _ = pixels.shape
    down, right = (np.rint(draws.uniform(-SHIFT, SHIFT) * side).astype(np.int64) for side in (height, width))
    flipped = draws.uniform() < 0.5
    if "crop" in kinds or "flip" in kinds:
        shifts = (down, right) if "crop" in kinds else (np.zeros_like(down), np.zeros_like(right))
        turned = flipped if "flip" in kinds else np.zeros(count, np.bool_)
        pixels = _moved(pixels, *shifts, turned)
    factors = [draws.uniform(1 - COLOUR, 1 + COLOUR) for _ in range(3)]
    if "colour" in kinds:
        pixels = _coloured(pixels, *factors)
    hit, share, shape = (
        draws.uniform() < ERASES,
        draws.uniform(*ERASED),
        draws.uniform(np.log(0.3), -np.log(0.3)),
    )
    top, left = draws.uniform(), draws.uniform()
    if "erase" in kinds:
        pixels = _erased(pixels, hit, share, np.exp(shape), top, left)
    return pixels


def _moved(pixels: np.ndarray, down: np.ndarray, right: np.ndarray, flipped: np.ndarray) -> np.ndarray:
    """Shift images, repeating their edges, and mirror some of them."""
    count, height, width, _ = pixels.shape
    rows = (np.arange(height) + down[:, None]).clip(0, height - 1)  # (B, H)
    columns = (np.arange(width) + right[:, None]).clip(0, width - 1)  # (B, W)
    columns = np.where(flipped[:, None], width - 1 - columns, columns)
    return pixels[np.arange(count)[:, None, None], rows[:, :, None], columns[:, None, :]]


def _coloured(
    pixels: np.ndarray, brightness: np.ndarray, contrast: np.ndarray, saturation: np.ndarray
) -> np.ndarray:
    """Change brightness and contrast, and of coloured images the saturation."""
    x = pixels.astype(np.float32) * brightness.astype(np.float32)[:, None, None, None]
    if pixels.shape[-1] == 3:
        grey = x @ np.array([0.299, 0.587, 0.114], np.float32)[:, None]  # ITU-R BT.601
        x = grey + (x - grey) * saturation.astype(np.float32)[:, None, None, None]
    mean = x.mean((1, 2, 3), keepdims=True)
    x = mean + (x - mean) * contrast.astype(np.float32)[:, None, None, None]
    return np.rint(x).clip(0, 255).astype(np.uint8)


def _erased(
    pixels: np.ndarray,
    hit: np.ndarray,
    share: np.ndarray,
    shape: np.ndarray,
    top: np.ndarray,
    left: np.ndarray,
) -> np.ndarray:
    """Fill a rectangle of some images with their mean colour. shape: its height over its width."""
    pixels = pixels.copy()
    _, height, width, _ = pixels.shape
    area = share * height * width
    tall = np.rint(np.sqrt(area * shape)).clip(1, height).astype(np.int64)
    wide = np.rint(np.sqrt(area / shape)).clip(1, width).astype(np.int64)
    for i in np.flatnonzero(hit).tolist():
        y, x = round(top[i] * (height - tall[i])), round(left[i] * (width - wide[i]))
        pixels[i, y : y + tall[i], x : x + wide[i]] = pixels[i].mean((0, 1))
    return pixels


def partners(seed: int, epoch: int, numbers: np.ndarray, examples: int) -> tuple[np.ndarray, np.ndarray]:
    """Return for each image the number of another one of `examples` and the weight of the image itself:
    mixup (Zhang et al. 2018), x = w x₁ + (1 − w) x₂, with the labels mixed alike. Most weights are 1.
    """
    draws = Draws(seed ^ 0x6D697875, epoch, numbers)  # other numbers than those of the image itself
    mixes, weights = draws.uniform() < MIXES, draws.uniform(0.5, 1.0)
    return draws.below(examples), np.where(mixes, weights, 1.0)


def mixed(pixels: np.ndarray, others: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return w x₁ + (1 − w) x₂ of images (B, H, W, C); weights (B,)."""
    own = weights.astype(np.float32)[:, None, None, None]
    return np.rint(own * pixels + (1 - own) * others).astype(np.uint8)
