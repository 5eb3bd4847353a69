"""The convolution over neighbours against torch's own, row by row."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from seqwright.nn.convolution import Neighbours
from seqwright.nn.masks import Places

SIZE = 4


@given(reach=st.integers(1, 3), lengths=st.lists(st.integers(1, 6), min_size=1, max_size=3))
def test_it_is_a_convolution_of_each_row_by_itself(reach, lengths):
    torch.manual_seed(reach)
    part, width = Neighbours(SIZE, reach).double(), 2 * reach + 1
    kernel = part.around.weight.view(SIZE, width, SIZE).transpose(1, 2)  # (out, in, place)
    x = torch.randn(len(lengths), max(lengths), SIZE, dtype=torch.float64)
    real = torch.arange(max(lengths))[None] < torch.tensor(lengths)[:, None]
    found = part(x, Places.run(0, max(lengths)).with_seen(real))
    for row, length, one in zip(x, lengths, found, strict=True):
        own = row[:length].T[None]
        around = F.conv1d(own, kernel, part.around.bias, padding=reach)[0].T
        torch.testing.assert_close(one[:length], row[:length] + around.relu())


def test_without_padding_everything_is_seen():
    torch.manual_seed(1)
    part, x = Neighbours(SIZE, 2), torch.randn(2, 5, SIZE)
    everything = Places.run(0, 5).with_seen(torch.ones(2, 5, dtype=torch.bool))
    torch.testing.assert_close(part(x, Places.run(0, 5)), part(x, everything))
