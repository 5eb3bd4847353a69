"""One file for each toolkit, run by its own Python: `train(ids, shape, batches, seconds)` and
`decode(shape, rows, beam, seconds)` are contenders as `bench.contest` takes them.
"""
