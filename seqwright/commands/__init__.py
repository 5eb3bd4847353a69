"""Commands of the command line, one module each: `arguments(parser)` and `run(options)`.

A module imports at its top only what its help needs. Torch and other heavy packages are imported in `run`.
"""
