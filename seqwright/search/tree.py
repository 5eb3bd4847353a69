"""The hypotheses of one sentence: chains of nodes, each with a pointer to its parent.

No history is copied when hypotheses branch, and they share their common prefix.
"""

from __future__ import annotations

import math
from enum import Enum

from seqwright.search.hypothesis import FinishReason, Hypothesis
from seqwright.search.options import BeamOptions, Start
from seqwright.search.stepping import Proposals


class Verdict(Enum):
    """Whether a sentence continues, or why it stops."""

    CONTINUE = ""
    NONE_ALIVE = "none alive"
    ENOUGH = "finished earlier: enough have ended"
    BOUND = "finished earlier: bound"
    LENGTH = "length"


class Node:
    """The last token of a hypothesis; its parents are the tokens before. `seat` is the row of its parent."""

    __slots__ = ("log_prob", "parent", "seat", "token", "token_score")

    def __init__(self, parent: Node | None, seat: int, token: int, token_score: float, log_prob: float):
        self.parent, self.seat, self.token = parent, seat, token
        self.token_score, self.log_prob = token_score, log_prob

    def hypothesis(self, score: float, reason: FinishReason) -> Hypothesis:
        nodes, node = [], self
        while node.parent is not None:
            nodes.append(node)
            node = node.parent
        tokens = [node.token for node in reversed(nodes)]
        scores = [node.token_score for node in reversed(nodes)]
        return Hypothesis(tokens[:-1] if reason == "end" else tokens, scores, score, self.log_prob, reason)


Scored = tuple[float, Node]  # the score of a finished hypothesis, and its last token


class Beam:
    """The hypotheses of one sentence. `seats` are its rows in the batch; an empty one is a dead row."""

    def __init__(self, sentence: int, limit: int, start: Start, options: BeamOptions):
        self.sentence, self.limit, self.end, self.options = sentence, limit, start.end, options
        self.length = 0  # tokens of each live hypothesis
        self.best = Node(None, 0, start.first, 0.0, 0.0)
        self.seats: list[Node | None] = [self.best] + [None] * (options.size - 1)
        self.ended: list[Scored] = []  # the n best, best first
        self.ends = 0  # number of all that ended
        self.cut_off: list[Scored] = []

    def read(self, tokens: list[int], scores: list[float]) -> None:
        """Begin with these tokens and their log-probabilities."""
        for token, score in zip(tokens, scores, strict=True):
            self.best = Node(self.best, 0, token, score, self.best.log_prob + score)
        self.length, self.seats[0] = len(tokens), self.best

    def tokens(self) -> list[int]:
        """The next input of the model; a dead row repeats the token of the best one."""
        return [self.best.token if node is None else node.token for node in self.seats]

    def carried(self) -> list[float]:
        """The log-probability of each row so far."""
        return [-math.inf if node is None else node.log_prob for node in self.seats]

    def expand(self, proposals: Proposals) -> tuple[list[Node], list[Node]]:
        """Return the nodes that stay alive, and those that end here.

        An end counts only among the first `size`: further down it is worse than a full beam. Twice `size`
        proposals are enough to fill the beam, because each row has one end.
        """
        self.length += 1
        live: list[Node] = []
        over: list[Node] = []
        size, seats, end = self.options.size, self.seats, self.end
        for rank, (seat, token, score) in enumerate(zip(*proposals, strict=True)):
            parent = seats[seat]
            if parent is None:
                break  # only dead rows are left
            if token != end:
                live.append(Node(parent, seat, token, score, parent.log_prob + score))
                if len(live) == size:
                    break
            elif rank < size:
                over.append(Node(parent, seat, token, score, parent.log_prob + score))
        if over:
            self.ends += len(over)
            ranked = sorted(self.ended + self._scored(over), key=lambda ended: -ended[0])
            self.ended = ranked[: self.options.n_best]
        return live, over

    def verdict(self, live: list[Node]) -> Verdict:
        """Whether the sentence continues with these nodes, best first."""
        if not live:
            return Verdict.NONE_ALIVE
        if self.ends >= self.options.enough:
            return Verdict.ENOUGH
        if len(self.ended) == self.options.n_best and self.bound(live[0]) <= self.ended[-1][0]:
            return Verdict.BOUND
        return Verdict.LENGTH if self.length >= self.limit else Verdict.CONTINUE

    def bound(self, node: Node) -> float:
        """The best score that an end after this node can have.

        log p ≤ 0 only falls with further tokens, so an end at length n scores at most log p / penalty(n).
        That is best where the penalty is largest: it is monotone, so at the nearest or the last end.
        """
        return node.log_prob / max(self.options.penalty(self.length + 1), self.options.penalty(self.limit))

    def seat(self, live: list[Node]) -> list[int]:
        """Seat nodes in their parents' rows if free, so that fewer states move; return the parents' rows."""
        parents = list(range(len(self.seats)))
        seats: list[Node | None] = [None] * len(parents)
        others = []
        for node in live:
            if seats[node.seat] is None:
                seats[node.seat] = node
            else:
                others.append(node)
        for node in others:
            free = seats.index(None)
            seats[free], parents[free] = node, node.seat
        self.best, self.seats = live[0], seats
        return parents

    def cut(self, live: list[Node]) -> None:
        """End at the maximum length."""
        self.cut_off = self._scored(live)

    def hypotheses(self) -> list[Hypothesis]:
        whole = [node.hypothesis(score, "end") for score, node in self.ended]
        cut = [node.hypothesis(score, "length") for score, node in self.cut_off]
        return (whole + cut)[: self.options.n_best]

    def _scored(self, nodes: list[Node]) -> list[Scored]:
        penalty = self.options.penalty(self.length)
        return [(node.log_prob / penalty, node) for node in nodes]
