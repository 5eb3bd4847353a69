"""How good a model is and how sure that is, where it fails, how fast it runs; and which of two is better."""

from seqwright.evaluation.comparison import Compared, compare
from seqwright.evaluation.measuring import Evaluation, Judging, evaluate, evaluate_files

__all__ = ["Compared", "Evaluation", "Judging", "compare", "evaluate", "evaluate_files"]
