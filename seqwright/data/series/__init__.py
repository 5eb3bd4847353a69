"""Time series: calendar, windows, scales and forecasts."""
