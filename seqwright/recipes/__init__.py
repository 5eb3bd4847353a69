"""One file per task: from a survey to a configuration, with a reason for each choice."""
