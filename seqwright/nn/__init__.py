"""The parts of models: attention, feed-forwards, blocks, recurrent layers, pooling, losses."""
