"""Search with any model that has `step(tokens, state)` and `state.select(rows)`. Imports no model."""

from seqwright.search.beam import beam_search
from seqwright.search.filters import BannedTokens, Filter, ForcedPrefix, MinimumLength, NoRepeat
from seqwright.search.generate import Emission, generate, stream
from seqwright.search.hypothesis import FinishReason, Hypothesis
from seqwright.search.lattice import Candidate, Lattice
from seqwright.search.options import BeamOptions, SamplingOptions, SearchOptions, Start
from seqwright.search.stepping import State, Step

__all__ = [
    "BannedTokens",
    "BeamOptions",
    "Candidate",
    "Emission",
    "Filter",
    "FinishReason",
    "ForcedPrefix",
    "Hypothesis",
    "Lattice",
    "MinimumLength",
    "NoRepeat",
    "SamplingOptions",
    "SearchOptions",
    "Start",
    "State",
    "Step",
    "beam_search",
    "generate",
    "stream",
]
