"""Seqwright and other toolkits on the same ids, the same shapes and the same machine, in turns.

python -m bench.peers install [NAME ...]                  # makes an environment for each
python -m bench.peers train  [--data DIR] [NAME ...]      # tokens per second, in one run with Seqwright
python -m bench.peers decode [NAME ...]                   # random weights and sources, 20 forced steps
python -m bench.peers --table                             # writes the tables of docs/benchmarks.md

A driver (`drivers/NAME.py`) runs in the environment of its toolkit and passes our ids to the model, training
step and search of the toolkit. This repository contains no code of the toolkits.
"""
