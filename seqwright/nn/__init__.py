"""The parts: one attention and what it is made of, feed-forwards, blocks, recurrent layers, the loss."""
