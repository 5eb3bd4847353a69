"""Convolutions over neighbours against torch's own, row by row."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from seqwright.data.batch import Tokens
from seqwright.models.encoders.ngrams import Ngrams
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


@given(widths=st.lists(st.integers(1, 5), min_size=1, max_size=3), length=st.integers(1, 6))
def test_detectors_of_ngrams_are_convolutions(widths, length):
    torch.manual_seed(length)
    part = Ngrams(vocabulary=12, size=7, embedding_size=SIZE, widths=widths).double().eval()
    ids = torch.randint(4, 12, (2, length))
    x, expected = part.embedding(ids).mT, []  # (B, D, S)
    for width, detector in zip(widths, part.detectors, strict=True):
        kernel = detector.weight.view(-1, width, SIZE).transpose(1, 2)
        expected.append(F.conv1d(F.pad(x, ((width - 1) // 2, width // 2)), kernel, detector.bias).relu())
    found = part(Tokens(ids)).hidden
    assert found.shape == (2, length, 7)
    torch.testing.assert_close(found, torch.cat(expected, 1).mT)


def test_token_dropout_takes_whole_tokens():
    torch.manual_seed(1)
    part = Ngrams(vocabulary=9, size=6, embedding_size=SIZE, widths=[1], dropout=0.0, token_dropout=0.5)
    with torch.no_grad():
        part.detectors[0].bias.fill_(1.0)  # what is left of a token without a vector
    lost = (part(Tokens(torch.full((50, 8), 5))).hidden == 1).all(-1).float().mean()
    assert 0.4 < lost < 0.6
    assert (part.eval()(Tokens(torch.full((50, 8), 5))).hidden != 1).any(-1).all()
