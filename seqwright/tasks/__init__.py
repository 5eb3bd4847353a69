"""What a model is trained for: how a batch is made, what the loss is, how outputs are scored."""
