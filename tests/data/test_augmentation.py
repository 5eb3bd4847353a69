"""Augmentation: a pure function of seed, epoch and example, and each kind does what it says."""

from __future__ import annotations

import numpy as np
import pytest

from seqwright.data.augmentation import ERASES, MIXES, Draws, augmented, mixed, partners

KINDS = ("crop", "flip", "colour", "erase")


def pictures(count: int = 12, size: int = 16, channels: int = 3) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (count, size, size, channels), dtype=np.uint8)


def changed(pixels: np.ndarray, kinds: tuple[str, ...], *, seed: int = 1, epoch: int = 0, first: int = 0):
    return augmented(pixels, kinds, seed, epoch, np.arange(first, first + len(pixels)))


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_an_image_is_changed_alike_in_every_batch(kind, channels):
    pixels = pictures(channels=channels)
    whole = changed(pixels, (kind,))
    assert whole.dtype == np.uint8
    assert not np.array_equal(whole, pixels)
    for i in range(len(pixels)):
        assert np.array_equal(changed(pixels[i : i + 1], (kind,), first=i)[0], whole[i])
    assert np.array_equal(changed(pixels, (kind,)), whole)


@pytest.mark.parametrize("kind", KINDS)
def test_seed_and_epoch_change_it(kind):
    pixels = pictures()
    first = changed(pixels, (kind,))
    assert not np.array_equal(changed(pixels, (kind,), seed=2), first)
    assert not np.array_equal(changed(pixels, (kind,), epoch=1), first)


def test_one_more_kind_leaves_the_others_as_they_are():
    pixels = pictures()
    both = changed(pixels, ("crop", "flip"))
    again = changed(changed(pixels, ("crop",)), ("flip",))
    mirrored = [not np.array_equal(a, b) for a, b in zip(changed(pixels, ("flip",)), pixels, strict=True)]
    assert np.array_equal(both[~np.array(mirrored)], changed(pixels, ("crop",))[~np.array(mirrored)])
    assert both.shape == again.shape


def test_flips_mirror_about_half_of_the_images():
    pixels = pictures(400, 4)
    found = changed(pixels, ("flip",))
    same = (found == pixels).all((1, 2, 3))
    mirrored = (found == pixels[:, :, ::-1]).all((1, 2, 3))
    assert (same | mirrored).all()
    assert 0.4 < mirrored.mean() < 0.6


def test_crops_shift_by_up_to_an_eighth_and_repeat_the_edge():
    pixels = np.zeros((200, 16, 16, 1), np.uint8)
    pixels[:, 8, 8] = 255
    places = np.argwhere(changed(pixels, ("crop",))[..., 0])[:, 1:] - 8
    assert len(places) == 200
    assert {int(place) for place in places.flat} == {-2, -1, 0, 1, 2}
    assert (changed(np.full_like(pixels, 9), ("crop",)) == 9).all()


def test_erasing_leaves_most_pixels_and_many_images():
    pixels = pictures(400)
    other = (changed(pixels, ("erase",)) != pixels).any(-1).mean((1, 2))
    assert other.max() < 0.3
    assert abs((other > 0).mean() - ERASES) < 0.1


def test_colours_keep_the_shapes():
    pixels = pictures(20)
    found = changed(pixels, ("colour",)).astype(np.float64)
    for one, other in zip(pixels.astype(np.float64), found, strict=True):
        assert np.corrcoef(one.mean(-1).flat, other.mean(-1).flat)[0, 1] > 0.95


def test_mixing_is_pure_and_keeps_the_larger_share():
    numbers = np.arange(500)
    others, weights = partners(3, 4, numbers, 1000)
    again, same = partners(3, 4, numbers[100:101], 1000)
    assert (again[0], same[0]) == (others[100], weights[100])
    assert ((others >= 0) & (others < 1000)).all()
    assert ((weights >= 0.5) & (weights <= 1)).all()
    assert abs((weights < 1).mean() - MIXES) < 0.1
    black, white = np.zeros((2, 4, 4, 3), np.uint8), np.full((2, 4, 4, 3), 200, np.uint8)
    assert mixed(black, white, np.array([1.0, 0.75]))[:, 0, 0, 0].tolist() == [0, 50]


def test_draws_are_even():
    numbers = Draws(0, 0, np.arange(4000)).uniform(2, 4)
    assert 2 <= numbers.min() <= numbers.max() < 4
    assert abs(numbers.mean() - 3) < 0.05
