"""The verbs of the command line, one file each: `arguments(parser)` and `run(options)`.

Only what a verb's help needs is imported at the top of its file; torch and its kin are imported when it runs.
"""
