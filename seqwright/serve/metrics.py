"""The numbers of a server for Prometheus. No label has an address, a key or a text."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
RATIOS = (0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0)


class Metrics:
    """All metrics of one server, in a registry of its own."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"seqwright_{name}", text, labels, registry=registry)

        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(f"seqwright_{name}", text, labels, registry=registry)

        def histogram(name: str, text: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
            return Histogram(f"seqwright_{name}", text, labels, buckets=buckets, registry=registry)

        self.requests = counter("requests_total", "Answered requests.", "route", "code")
        self.request_seconds = histogram("request_seconds", "From request to answer.", SECONDS, "route")
        self.queue_wait = histogram("queue_wait_seconds", "From admission to computation.", SECONDS, "model")
        self.first_token = histogram("ttft_seconds", "From admission to the first token.", SECONDS, "model")
        self.next_token = histogram("inter_token_seconds", "Between two steps.", SECONDS, "model")
        self.batch_rows = histogram("batch_rows", "Inputs that are computed together.", ROWS, "model")
        self.batch_pad = histogram("batch_pad_ratio", "Share of padding in a batch.", RATIOS, "model")
        self.queue_depth = gauge("queue_depth", "Inputs that wait.", "model")
        self.inflight = gauge("inflight", "Inputs that are computed.", "model")
        self.ready = gauge("ready", "1 if the server accepts requests.")
        self.rejected = counter("rejected_total", "Refused requests.", "reason")
        self.cancelled = counter(
            "cancelled_total", "Inputs whose client has left or whose deadline is over.", "model"
        )
        self.restarts = counter("worker_restarts_total", "Workers that have died.", "model")
        self.tokens_in = counter("tokens_in_total", "Tokens of inputs.", "model")
        self.tokens_out = counter("tokens_out_total", "Tokens of outputs.", "model")

    def page(self) -> bytes:
        return generate_latest(self.registry)


class ModelMetrics:
    """The metrics of one model, with its label."""

    def __init__(self, every: Metrics, model: str):
        self._record: dict[str, Callable[[float], None]] = {
            "queue_wait": every.queue_wait.labels(model).observe,
            "first_token": every.first_token.labels(model).observe,
            "next_token": every.next_token.labels(model).observe,
            "batch_rows": every.batch_rows.labels(model).observe,
            "batch_pad": every.batch_pad.labels(model).observe,
            "queue_depth": every.queue_depth.labels(model).set,
            "inflight": every.inflight.labels(model).set,
            "cancelled": every.cancelled.labels(model).inc,
            "restarts": every.restarts.labels(model).inc,
            "tokens_in": every.tokens_in.labels(model).inc,
            "tokens_out": every.tokens_out.labels(model).inc,
        }

    def record(self, name: str, value: float) -> None:
        """Observe a value, set a gauge, or add to a counter."""
        self._record[name](value)
