"""The run folder: configuration, weights, checkpoints, log, report and model card."""
