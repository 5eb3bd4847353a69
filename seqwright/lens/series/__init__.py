"""Inside a forecaster: the weights from the past to the forecast, as a trace and on a page."""
