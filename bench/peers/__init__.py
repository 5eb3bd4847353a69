"""Seqwright and other toolkits on the same ids, the same shapes and the same machine, in turns.

python -m bench.peers install [NAME ...]                  # an environment for each, outside the repository
python -m bench.peers train  [--data DIR] [NAME ...]      # tokens a second, beside Seqwright in one run
python -m bench.peers decode [NAME ...]                   # random weights and sources, 20 forced steps
python -m bench.peers --table                             # the tables of docs/benchmarks.md from the results

A toolkit is run by a driver (`drivers/NAME.py`) in its own environment: the driver gives our ids to the
toolkit's own model, training step and search. Nothing of the toolkits is in this repository.
"""
