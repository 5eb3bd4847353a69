"""Places: the positions of tokens."""

from __future__ import annotations

import torch

from seqwright.nn.masks import Places


def test_appended_places_stay_on_their_device():
    """On the device "meta", which has no numbers, as no test machine has another one."""
    meta = torch.device("meta")
    places = Places(torch.arange(2, device=meta), first=0, last=1)
    assert places.append(Places.run(2, 1, device=meta), 1, 1).pos.device == meta
    wide = places.append(Places.run(2, 1, width=2, device=meta), 1, 2)
    assert wide.seen is not None
    assert wide.seen.device == wide.pos.device == meta
