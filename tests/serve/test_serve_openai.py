"""The dialect of OpenAI: completions and chat, whole and as a stream, also with its own client."""

from __future__ import annotations

import json
import socket
import threading
import time
import urllib.error
import urllib.request

import pytest
from lm_runs import toy_run
from serving import Background, Process, application, client, direct, worker_of


@pytest.fixture(scope="module")
def server(run, story, labels):
    with client(run, story, labels) as found:
        yield found


def events(answer):
    """The events of a stream, and whether it ended as it should."""
    assert answer.headers["Content-Type"].startswith("text/event-stream")
    lines = [line[6:] for line in answer.text.split("\n\n") if line]
    assert lines[-1] == "[DONE]"
    return [json.loads(line) for line in lines[:-1]]


def test_models_have_their_task(server):
    found = server.get("/v1/models").json()
    assert found["object"] == "list"
    known = {each["id"]: each for each in found["data"]}
    assert {name: each["task"] for name, each in known.items()} == {
        "capitals": "text_to_text",
        "story": "language_modeling",
        "labels": "text_classification",
    }
    assert known["story"]["writes"]
    assert not known["labels"]["writes"]
    assert server.get("/v1/models/story").json() == known["story"]
    assert server.get("/v1/models/none").status_code == 404


STORY = {"model": "story", "prompt": "alpha gimel ", "max_tokens": 40, "temperature": 0}


def test_a_completion_is_that_of_the_predictor(server, story):
    found = server.post("/v1/completions", json={**STORY, "logprobs": 1}).json()
    (wanted,) = direct(story, [STORY["prompt"]], temperature=0, length=40)
    (choice,) = found["choices"]
    assert (found["object"], choice["text"]) == ("text_completion", wanted["output"])
    assert choice["finish_reason"] == {"end": "stop"}.get(wanted["finish_reason"], wanted["finish_reason"])
    assert choice["logprobs"]["token_logprobs"] == pytest.approx(wanted["token_scores"], abs=1e-4)
    assert found["usage"]["prompt_tokens"] == len(STORY["prompt"])
    assert found["usage"]["completion_tokens"] == len(wanted["token_scores"])


@pytest.mark.parametrize(
    "more", [{}, {"temperature": 0.8, "seed": 3}, {"stop": ["a", "brown"]}, {"echo": True}]
)
def test_a_stream_is_the_completion_in_parts(server, more):
    asked = {**STORY, "logprobs": 1, **more}
    answer = server.post("/v1/completions", json=asked).json()
    whole = answer["choices"][0]
    options = {"stream": True, "stream_options": {"include_usage": True}}
    found = events(server.post("/v1/completions", json={**asked, **options}))
    parts = [event["choices"][0] for event in found if event["choices"]]
    assert "".join(part["text"] for part in parts) == whole["text"]
    assert parts[-1]["finish_reason"] == whole["finish_reason"]
    assert all(part["finish_reason"] is None for part in parts[:-1])
    assert found[-1]["choices"] == []
    assert found[-1]["usage"] == answer["usage"]
    assert answer["usage"]["prompt_tokens"] == len(STORY["prompt"])
    assert answer["usage"]["completion_tokens"] > 0
    assert len(parts) > 2 or "stop" in more
    scores = {name: [each for part in parts for each in part["logprobs"][name]] for name in whole["logprobs"]}
    assert (scores["tokens"], scores["text_offset"]) == (
        whole["logprobs"]["tokens"],
        whole["logprobs"]["text_offset"],
    )
    # an output that was stopped before may still be computed with one of them
    assert scores["token_logprobs"] == pytest.approx(whole["logprobs"]["token_logprobs"], abs=1e-5)
    for one, other in zip(scores["top_logprobs"], whole["logprobs"]["top_logprobs"], strict=True):
        assert one == pytest.approx(other, abs=1e-5)
    assert parts[0]["logprobs"]["tokens"] or "echo" in more  # not only in the last part


def test_stops_end_a_text_before_them(server):
    plain = server.post("/v1/completions", json=STORY).json()["choices"][0]["text"]
    stop = plain[10:13]
    found = server.post("/v1/completions", json={**STORY, "stop": stop}).json()["choices"][0]
    assert found["text"] == plain[: plain.index(stop)]
    assert found["finish_reason"] == "stop"


def test_several_choices_differ_by_their_seeds(server):
    asked = {**STORY, "temperature": 1, "n": 3, "seed": 5, "prompt": ["alpha ", "brown "]}
    found = server.post("/v1/completions", json=asked).json()["choices"]
    assert [choice["index"] for choice in found] == list(range(6))
    assert len({choice["text"] for choice in found}) > 3
    again = server.post("/v1/completions", json=asked).json()["choices"]
    assert [choice["text"] for choice in again] == [choice["text"] for choice in found]


def test_a_chat_with_a_translator_and_with_a_language_model(server, run):
    messages = [{"role": "system", "content": "x"}, {"role": "user", "content": "facade"}]
    found = server.post("/v1/chat/completions", json={"model": "capitals", "messages": messages}).json()
    assert found["object"] == "chat.completion"
    assert found["choices"][0]["message"] == {
        "role": "assistant",
        "content": direct(run, ["facade"])[0]["output"],
    }
    parts = [{"role": "user", "content": [{"type": "text", "text": "alpha "}]}]
    asked = {
        "model": "story",
        "messages": parts,
        "max_tokens": 30,
        "seed": 1,
        "stream": True,
        "logprobs": True,
    }
    stream = events(server.post("/v1/chat/completions", json=asked))
    assert stream[0]["choices"][0]["delta"]["role"] == "assistant"
    assert {event["object"] for event in stream} == {"chat.completion.chunk"}
    text = "".join(event["choices"][0]["delta"].get("content", "") for event in stream)
    whole = server.post("/v1/chat/completions", json={**asked, "stream": False}).json()
    assert text == whole["choices"][0]["message"]["content"]
    assert len(whole["choices"][0]["logprobs"]["content"]) > 5


def test_offsets_are_places_in_the_text(server):
    """With `echo` it begins with the prompt."""
    for stream in (False, True):
        asked = {**STORY, "logprobs": 1, "echo": True, "stream": stream}
        found = server.post("/v1/completions", json=asked)
        choices = [event["choices"][0] for event in events(found)] if stream else found.json()["choices"]
        text = "".join(choice["text"] for choice in choices)
        scores = [choice["logprobs"] for choice in choices]
        offsets = [offset for each in scores for offset in each["text_offset"]]
        tokens = [token for each in scores for token in each["tokens"]]
        assert offsets[0] == len(STORY["prompt"])
        assert all(text.startswith(*each) for each in zip(tokens, offsets, strict=True))


def test_a_message_of_the_assistant_may_have_no_text(server, run):
    """It called a tool."""
    called = {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "type": "function"}]}
    messages = [{"role": "user", "content": "facade"}, called, {"role": "assistant"}]
    for model in ("capitals", "story"):
        body = {"model": model, "messages": messages, "seed": 1, "max_tokens": 8}
        assert server.post("/v1/chat/completions", json=body).status_code == 200
    found = server.post("/v1/chat/completions", json={"model": "capitals", "messages": messages}).json()
    assert found["choices"][0]["message"]["content"] == direct(run, ["facade"])[0]["output"]


@pytest.mark.parametrize(
    ("message", "says"),
    [
        ({"role": "system", "content": "facade"}, "there is no message of the user"),
        ({"role": "user", "content": None}, "messages.0.content is null"),
    ],
)
def test_a_chat_without_a_text_of_the_user_is_refused(server, message, says):
    found = server.post("/v1/chat/completions", json={"model": "capitals", "messages": [message]})
    assert found.status_code == 400
    assert says in found.json()["error"]["message"]


@pytest.mark.parametrize("kind", ["encoder_decoder", "dual_encoder"])
def test_a_conversation_replies_to_all_messages(tmp_path, kind):
    """Those of the system are read, too. A retrieved reply ignores what clients send by default."""
    talk = toy_run(tmp_path / "talk", "conversation", kind, steps=2)
    said = [("system", "be kind"), ("user", "i am abc"), ("assistant", "hi abc"), ("user", "i am def")]
    messages = [{"role": role, "content": text} for role, text in said]
    (wanted,) = direct(talk, [tuple(text for _, text in said)], beam=1)
    with client(talk) as server:

        def chat(**options):
            body = {"model": "talk", "messages": messages, **options}
            return server.post("/v1/chat/completions", json=body).json()

        found = chat(temperature=0)
        assert found["choices"][0]["message"]["content"] == wanted["output"]
        assert found["usage"]["prompt_tokens"] == wanted["reading"]["tokens"]
        if kind == "dual_encoder":
            assert chat(temperature=1, top_p=1, max_tokens=1)["choices"] == found["choices"]
            message = chat(temperature=2)["error"]["message"]
            assert message.startswith("temperature is 2")
            assert "retrieves replies" in message


@pytest.mark.parametrize(
    ("body", "status", "says"),
    [
        ({"model": "none"}, 404, "the model 'none' does not exist"),
        ({"model": "labels"}, 400, "labels does not write text; use /v1/predict"),
        ({"temperature": 3}, 400, "temperature: Input should be less than or equal to 2"),
        ({"max_tokens": 0}, 400, "max_tokens: Input should be greater than or equal to 1"),
        ({"max_tokens": 5000}, 400, "max_length is 5000; it must be at most 4096"),
        ({"prompt": [1, 2]}, 400, "prompt"),
        ({"logit_bias": {"1": 2}}, 400, "logit_bias is not supported; leave it out"),
        ({"stream": True, "max_tokens": 5000}, 400, "max_length is 5000"),
        ({"stop": ["a"] * 5}, 400, "stop"),
        ({"best_of": 2}, 400, "best_of"),
        ({"suffix": "end"}, 400, "suffix is not supported; leave it out"),
        ({"stop": "a" * 900_000}, 400, "stop has 900000 characters; at most 20000"),
        ({"stop": ["a", "b" * 20_001]}, 400, "stop has 20001 characters; at most 20000"),
    ],
)
def test_errors_have_the_shape_of_the_client(server, body, status, says):
    found = server.post("/v1/completions", json={**STORY, **body})
    error = found.json()["error"]
    assert (found.status_code, set(error)) == (status, {"message", "type", "param", "code"})
    assert says in error["message"]


def test_other_log_probabilities_of_a_chat_are_refused(server):
    asked = {"model": "story", "messages": [{"role": "user", "content": "alpha "}], "logprobs": True}
    found = server.post("/v1/chat/completions", json={**asked, "top_logprobs": 2})
    assert found.status_code == 400
    assert found.json()["error"]["message"] == "top_logprobs is not supported; leave it out"
    assert server.post("/v1/chat/completions", json={**asked, "top_logprobs": 0}).status_code == 200


def test_the_usage_of_a_translator_counts_its_prompt(server, run):
    (wanted,) = direct(run, ["facade"], beam=1)
    asked = {"model": "capitals", "prompt": "facade", "temperature": 0}
    for stop in ([], [wanted["output"][2]]):
        usage = server.post("/v1/completions", json={**asked, "stop": stop}).json()["usage"]
        assert usage["prompt_tokens"] == wanted["reading"]["tokens"] > 0


@pytest.fixture
def held(run):
    """A server whose worker stands still at the first step, until the event is set; then it is slow."""
    with application(run) as app, Background(app) as server:
        (model,) = app.models.all.values()
        worker, event, began = model.dispatcher.host.worker, threading.Event(), threading.Event()
        whole = worker._model.step

        def step(tokens, state):
            began.set()
            event.wait(20)
            time.sleep(0.02)
            return whole(tokens, state)

        worker._model.step = step
        yield server, began, event
        event.set()


def numbers(server):
    with urllib.request.urlopen(f"{server.url}/metrics", timeout=10) as answer:
        return answer.read().decode()


def until(condition):
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_stream_notices_that_its_client_left_before_the_first_token(held):
    server, began, event = held
    asked = json.dumps({"model": "capitals", "prompt": "facade", "stream": True}).encode()
    head = f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(asked)}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", server.port)) as client:
        client.sendall(head.encode() + asked)
        assert began.wait(20)
    until(lambda: 'requests_total{code="499",route="/v1/completions"} 1.0' in numbers(server))
    event.set()
    until(lambda: 'cancelled_total{model="capitals"} 1.0' in numbers(server))


def test_what_belongs_to_a_refused_request_is_dropped(held):
    server, _, event = held
    body = {"model": "capitals", "prompt": ["facade", "a" * 10_000]}
    request = urllib.request.Request(f"{server.url}/v1/completions", json.dumps(body).encode())
    with pytest.raises(urllib.error.HTTPError, match="400"):
        urllib.request.urlopen(request, timeout=20)
    event.set()
    until(lambda: 'cancelled_total{model="capitals"} 1.0' in numbers(server))


def test_an_error_within_a_stream_is_an_event(story, monkeypatch):
    with client(story) as server:
        worker, count = worker_of(server), []
        whole = worker._model.step

        def fails(tokens, state):
            count.append(1)
            if len(count) > 6:
                raise RuntimeError("secret")
            return whole(tokens, state)

        monkeypatch.setattr(worker._model, "step", fails)
        found = events(server.post("/v1/completions", json={**STORY, "stream": True}))
        assert found[-1]["error"]["message"] == "internal server error"
        monkeypatch.undo()
        assert server.post("/v1/completions", json=STORY).status_code == 200


def test_prompts_that_an_idle_server_cannot_take_are_not_a_503(run):
    """It would be sent again for ever."""
    asked = {"model": "capitals", "prompt": ["abcdef"] * 3}
    with client(run, limits={"tokens": 40}) as server:
        assert server.post("/v1/completions", json=asked).status_code == 200
        answer = server.post("/v1/completions", json={**asked, "temperature": 1, "n": 2})
        assert answer.status_code == 400
        assert (
            answer.json()["error"]["message"] == "the inputs have more than 40 tokens; send fewer at a time"
        )


@pytest.mark.slow
def test_its_own_client(run, story):
    """Plain, streamed, cancelled, refused."""
    import openai

    with Process(str(run), str(story), "--key", "k") as server:
        api = openai.OpenAI(base_url=f"{server.url}/v1", api_key="k", max_retries=0)
        assert [model.id for model in api.models.list()] == ["capitals", "story"]
        plain = api.completions.create(**STORY)
        parts = list(api.completions.create(**STORY, stream=True))
        assert "".join(part.choices[0].text for part in parts) == plain.choices[0].text
        messages = [{"role": "user", "content": "facade"}]
        reply = api.chat.completions.create(model="capitals", messages=messages)
        assert reply.choices[0].message.content == direct(run, ["facade"])[0]["output"]
        stream = api.chat.completions.create(
            model="story", messages=messages, max_tokens=4000, stream=True, temperature=0
        )
        next(iter(stream))
        stream.close()
        deadline = time.monotonic() + 10
        while 'cancelled_total{model="story"} 1.0' not in metrics(server):
            assert time.monotonic() < deadline
        with pytest.raises(openai.NotFoundError):
            api.completions.create(**{**STORY, "model": "none"})
        with pytest.raises(openai.AuthenticationError):
            openai.OpenAI(base_url=f"{server.url}/v1", api_key="x", max_retries=0).models.list()


def metrics(server):
    request = urllib.request.Request(f"{server.url}/metrics", headers={"Authorization": "Bearer k"})
    with urllib.request.urlopen(request, timeout=10) as answer:
        return answer.read().decode()
