"""Where the steps of each series are in a store of windows."""

from __future__ import annotations

from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from seqwright.data.series.windows import Series
from seqwright.data.store import Store


class Usable(NamedTuple):
    mask: np.ndarray
    rows: np.ndarray


class SeriesIndex:
    """Where the rows of a store are. table (T, C): all steps; places (N,): the step of each row; segments
    (N,): its segment, a run of steps of one series; begins, ends: of segments, in steps; firsts: their first
    rows.
    """

    def __init__(self, store: Store, channels: int):
        values = store.column("values")
        self.table = values.flat.reshape(-1, channels)
        self.places = values.offsets[1:] // channels - 1
        keys = store.column("key").flat.reshape(-1, 2)[:, 0]
        new = np.concatenate([[True], keys[1:] != keys[:-1]])
        self.segments, self.firsts = np.cumsum(new) - 1, np.flatnonzero(new)
        self.begins = values.offsets[self.firsts] // channels
        self.ends = np.append(self.begins[1:], len(self.table))
        self.series: dict[int, Series] = {}
        self.numbers: np.ndarray | None = None
        self._usable: dict[tuple[int, int], Usable] = {}

    def usable(self, lookback: int, horizon: int) -> Usable:
        """Return the rows with a whole history and a whole future; if there are none, those with any."""
        if (lookback, horizon) not in self._usable:
            before, after = self.places - self.begins[self.segments], self.ends[self.segments] - self.places
            mask = (before >= lookback) & (after >= horizon)
            for least in (lookback, lookback // 2, 1, 0):
                mask = (before >= least) & (after >= min(horizon, int(after.max())))
                if mask.any():
                    break
            self._usable[lookback, horizon] = Usable(mask, np.flatnonzero(mask))
        return self._usable[lookback, horizon]


_INDEXES: WeakKeyDictionary[Store, SeriesIndex] = WeakKeyDictionary()


def series_index(store: Store, channels: int) -> SeriesIndex:
    """Return the index of a store, made once."""
    found = _INDEXES.get(store)
    if found is None:
        found = _INDEXES[store] = SeriesIndex(store, channels)
    return found
