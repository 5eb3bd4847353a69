"""One file per toolkit, run by its own Python: `train(ids, shape, batches, seconds)` and
`decode(shape, rows, beam, seconds)` are contenders for `bench.contest`.
"""
