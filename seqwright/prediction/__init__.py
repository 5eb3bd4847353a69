"""From inputs to outputs with a trained model."""
