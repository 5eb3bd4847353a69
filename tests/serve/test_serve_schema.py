"""Random requests from the OpenAPI document: every answer is one that the document describes.

With SEQWRIGHT_FUZZ=300 the requests are other ones each time, and go on for 300 seconds.
"""

from __future__ import annotations

import itertools
import os
import time
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from serving import application, client

MODELS = ("run", "story", "labels", "tags", "waves", "squares")  # fixtures, of a task each
SECONDS = float(os.environ.get("SEQWRIGHT_FUZZ", "0"))


def test_the_document_describes_every_operation(run, story, labels, tags, waves, squares):
    with client(run, story, labels, tags, waves, squares) as server:
        document = server.get("/openapi.json").json()
    wanted = {"/v1/predict", "/v1/look", "/v1/completions", "/v1/chat/completions", "/translate"}
    assert wanted <= set(document["paths"])
    inputs = document["components"]["schemas"]["PredictRequest"]["properties"]["inputs"]["items"]["anyOf"]
    kinds = [kind for each in inputs for kind in each.get("anyOf", [each])]
    names = {name for kind in kinds for name in kind.get("properties", {})}
    assert {"source", "text", "sentence", "image", "target"} <= names


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_random_requests_find_nothing(request, name):
    """To the only model of a server. Valid and invalid requests. That a valid one succeeds is not checked: an
    option or a language that the model does not have is refused, which a schema cannot say. Nor is it checked
    that texts are refused for numbers where a request may be a form.
    """
    import schemathesis
    from schemathesis.checks import CHECKS, load_all_checks

    load_all_checks()
    valid, invalid = CHECKS.get_by_names(["positive_data_acceptance", "negative_data_rejection"])
    until = time.monotonic() + SECONDS / len(MODELS)
    with application(request.getfixturevalue(name), hosts=None) as app:
        schema = schemathesis.openapi.from_asgi("/openapi.json", app)
        operations = [found.ok() for found in schema.get_all_operations()]
        for _ in itertools.count():
            for operation, mode in itertools.product(operations, schemathesis.GenerationMode):
                excluded = [valid] if operation.path.startswith("/v1") else [valid, invalid]

                @settings(
                    max_examples=60,
                    deadline=None,
                    derandomize=not SECONDS,
                    database=None,
                    suppress_health_check=list(HealthCheck),
                )
                @given(case=operation.as_strategy(generation_mode=mode))
                def check(case):
                    case.call_and_validate(excluded_checks=excluded)  # noqa: B023

                with suppress(Unsatisfiable):  # nothing about an operation without a body can be wrong
                    check()
            if time.monotonic() >= until:
                break
