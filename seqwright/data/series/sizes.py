"""How many steps a forecast reads and covers."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from seqwright.data.series.calendar import Frequency

if TYPE_CHECKING:
    from seqwright.config import DataConfig


class WindowSizes(NamedTuple):
    horizon: int
    lookback: int
    season: int


USUAL_LOOKBACK = 336  # steps: two weeks of hours
UNSEASONAL = 12  # steps of a forecast where the calendar suggests no season


def window_sizes(frequency: Frequency, steps: int, data: DataConfig) -> WindowSizes:
    """Choose what a forecast covers and reads, for `steps` training steps of a frequency."""
    seasons = [season for season in frequency.seasons if 3 * season <= steps]
    season = seasons[0] if seasons else 1
    horizon = data.horizon or max(min(season if season > 1 else UNSEASONAL, steps // 8), 1)
    room = max((steps - horizon) // 2, 1)
    wanted = max(USUAL_LOOKBACK, 2 * season)
    wanted = min(wanted + -wanted % season, room)  # whole seasons
    if season > 1 and wanted >= 2 * season:
        wanted -= wanted % season
    lookback = data.lookback or wanted
    return WindowSizes(horizon, lookback, min(season, lookback))
