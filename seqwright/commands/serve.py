"""`seqwright serve`: answer requests with trained models, over HTTP and on a page."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from seqwright.serve.models import Models

KEY = "SEQWRIGHT_KEY"


def arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "folders",
        nargs="+",
        metavar="RUN",
        help="Run folders; the name of a folder is the name of its model.",
    )
    add("--host", default="127.0.0.1", metavar="H", help="Address (default: 127.0.0.1, this machine only).")
    add("--port", type=int, default=8000, metavar="P", help="Port (default: 8000; 0: any free one).")
    key = f"Key that clients must send (default: the environment variable {KEY})."
    add("--key", metavar="K", help=key)
    add("--check", action="store_true", help="Load and try each model, print the result, and exit.")
    add("--insecure", action="store_true", help="Serve other machines without a key.")
    origin = "Web site whose pages may send requests, such as https://example.org."
    add("--allow-origin", action="append", default=[], metavar="URL", help=origin)
    add("--rate", type=float, metavar="N", help="Limit of requests per second and client (default: none).")
    add("--deadline", type=float, metavar="S", help="Time limit of a request in seconds (default: 60).")
    drain = "Time limit of accepted requests after SIGTERM in seconds (default: 30)."
    add("--drain", type=float, metavar="S", help=drain)
    add("--threads", type=int, metavar="N", help="Number of CPU threads.")


def run(options: argparse.Namespace) -> int:
    from seqwright.errors import ConfigError

    try:
        import prometheus_client  # noqa: F401
        import python_multipart  # noqa: F401
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise ConfigError(
            f"{error.name} is not installed, which serve needs; run pip install 'seqwright[serve]'"
        ) from error
    from dataclasses import replace
    from functools import partial

    from seqwright.runtime import freeze_objects
    from seqwright.serve.app import LOCAL, build
    from seqwright.serve.limits import Limits
    from seqwright.serve.metrics import Metrics
    from seqwright.serve.models import load_models
    from seqwright.serve.server import is_local, listen, serve

    given = {"rate": options.rate, "deadline": options.deadline, "drain": options.drain}
    for name, value in given.items():
        if value is not None and not 0 < value < float("inf"):
            raise ConfigError(f"--{name} is {value:g}; it must be a positive number")
    limits = replace(Limits(), **{name: value for name, value in given.items() if value is not None})
    key = options.key if options.key is not None else os.environ.get(KEY, "")
    if options.key is not None and not options.key:
        raise ConfigError("--key is empty; pass a key, or leave it out")
    local = is_local(options.host)
    if not local and not key and not options.insecure:
        raise ConfigError(
            f"--host {options.host} lets other machines in, and there is no key; pass --key or set {KEY} "
            "(or pass --insecure)"
        )
    metrics = Metrics()
    bound = None if options.check else listen(options.host, options.port)
    loading = {"threads": options.threads, "trusted": options.trust_code, "processes": bound is not None}
    models = load_models(options.folders, limits, metrics, **loading)
    try:
        if bound is None:
            return check(models)
        hosts = LOCAL if local and not key else None
        app = build(
            models, limits, metrics, keys=[key] if key else [], hosts=hosts, origins=options.allow_origin
        )
        host, port = bound.getsockname()[:2]
        address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        freeze_objects()  # a collection that visits the models takes as long as several requests
        for name, model in models.all.items():
            print(f"{name}: {model.kind}, {model.predictor.parameters:,} parameters", file=sys.stderr)
        announce = partial(print, f"listening on http://{address}", flush=True)
        serve(app, bound, limits, ready=announce, refuse=models.refuse)
    finally:
        models.close()
    if models.looking:  # its thread cannot be stopped, and the interpreter must not end below it
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)
    return 0


def check(models: Models) -> int:
    """Let every model answer its recorded examples; 0 if all outputs are those of the end of its training."""
    from seqwright.prediction.examples import recorded_inputs, replay

    wrong = 0
    for name, model in models.all.items():
        count = len(recorded_inputs(model.predictor))
        folder = model.predictor.folder
        differences = replay(model.predictor, folder) if folder is not None else []
        wrong += len(differences)
        print(f"{name}: {count - len(differences)} of {count} recorded outputs unchanged")
        for difference in differences:
            print(f"  {difference}")
    return 3 if wrong else 0
