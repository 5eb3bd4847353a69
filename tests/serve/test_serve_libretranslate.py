"""The dialect of LibreTranslate, with its own client and with forms and queries as curl sends them."""

from __future__ import annotations

import asyncio
import json
import shutil

import pytest
from serving import Background, application, client, direct, models_of
from tiny_runs import words

from seqwright.serve.dialects.libretranslate import TAG
from seqwright.serve.limits import Refusal

WORD = "facade"


@pytest.fixture(scope="module")
def server(run, tmp_path_factory):
    home = tmp_path_factory.mktemp("pairs")
    for name in ("letters-en-de", "letters-fr-de"):
        shutil.copytree(run, home / name)
    with client(home / "letters-en-de", home / "letters-fr-de", run) as found:
        yield found


@pytest.fixture(scope="module")
def answer(run):
    return direct(run, [WORD])[0]["output"]


def test_json_forms_and_queries_are_alike(server, answer):
    fields = {"q": WORD, "source": "en", "target": "de"}
    for sent in (
        server.post("/translate", json=fields),
        server.post("/translate", data=fields),
        server.post("/translate", files={name: (None, value) for name, value in fields.items()}),
        server.post("/translate", params=fields),
        server.post("/translate", json={**fields, "source": "EN", "format": "text"}),
    ):
        assert (sent.status_code, sent.json()) == (200, {"translatedText": answer})


def test_lists_alternatives_and_guesses(server, answer):
    fields = {"q": [WORD, "abc"], "source": "auto", "target": "de", "alternatives": 2}
    found = server.post("/translate", json=fields).json()
    assert found["translatedText"][0] == answer
    assert [len(each) for each in found["alternatives"]] == [2, 2]
    assert {each["language"] for each in found["detectedLanguage"]} <= {"en", "fr"}
    several = server.post("/translate", data={"q": [WORD, WORD], "source": "en", "target": "de"}).json()
    assert several == {"translatedText": [answer, answer]}


def test_lines_and_tags_stay(server, answer):
    fields = {"source": "en", "target": "de"}
    found = server.post("/translate", json={**fields, "q": f"{WORD}\n\n  {WORD}\n"}).json()
    assert found["translatedText"] == f"{answer}\n\n  {answer}\n"
    marked = {**fields, "q": f"<b class='a'>{WORD}</b> <i></i>", "format": "html"}
    assert (
        server.post("/translate", json=marked).json()["translatedText"]
        == f"<b class='a'>{answer}</b> <i></i>"
    )
    assert server.post("/translate", json={**fields, "q": ""}).json() == {"translatedText": ""}


@pytest.mark.parametrize(
    ("fields", "status", "error"),
    [
        ({"source": "en", "target": "de"}, 400, "Invalid request: missing q parameter"),
        ({"q": "a", "target": "de"}, 400, "Invalid request: missing source parameter"),
        ({"q": "a", "source": "en", "target": "zz"}, 400, "zz is not supported"),
        ({"q": "a", "source": "zz", "target": "de"}, 400, "zz is not supported"),
        ({"q": "a", "source": "en", "target": "de", "format": "xx"}, 400, "xx format is not supported"),
        (
            {"q": "a" * 20_001, "source": "en", "target": "de"},
            400,
            "Invalid request: request (20001) exceeds text limit (20000)",
        ),
        (
            {"q": ["a"] * 257, "source": "en", "target": "de"},
            400,
            "Invalid request: request (257) exceeds batch limit (256)",
        ),
    ],
)
def test_errors_are_texts(server, fields, status, error):
    found = server.post("/translate", json=fields)
    assert (found.status_code, found.json()) == (status, {"error": error})


@pytest.mark.parametrize(
    "texts",
    ["\n".join(words(300, seed=1)), ["\n".join(words(2, seed=n)) for n in range(129)]],
    ids=["one", "many"],
)
def test_a_document_within_the_limits_is_translated(server, run, texts):
    """Also one of more lines than the queue has places, by an idle server."""
    answer = server.post("/translate", json={"q": texts, "source": "en", "target": "de"})
    assert answer.status_code == 200
    found = answer.json()["translatedText"]
    several = [texts] if isinstance(texts, str) else texts
    lines = [line for text in several for line in text.split("\n")]
    expected = iter([each["output"] for each in direct(run, lines)])
    wanted = ["\n".join(next(expected) for _ in text.split("\n")) for text in several]
    assert found == (wanted[0] if isinstance(texts, str) else wanted)


def test_the_lines_of_a_document_leave_half_of_the_queue_to_others(run, monkeypatch):
    with client(run, limits={"requests": 4, "tokens": 40}) as server:
        dispatcher, most = models_of(server).find(None).dispatcher, []
        whole = dispatcher.submit

        def submit(entries):
            if len(most) == 2:  # as if another client had come
                most.append((0, 0))
                raise Refusal(503, "the queue is full", 1, "full")
            most.append((len(entries), sum(entry.ticket.tokens for entry in entries)))
            whole(entries)

        monkeypatch.setattr(dispatcher, "submit", submit)
        fields = {"q": "\n".join(["abcdef"] * 4 + ["abcdefghabcdefgh"] * 3), "source": "text"}
        answer = server.post("/translate", json={**fields, "target": "capitals"})
        assert (answer.status_code, len(answer.json()["translatedText"].split("\n"))) == (200, 7)
        assert max(count for count, _ in most) == 2
        assert max(tokens for _, tokens in most) <= 20
        most[:] = [(0, 0)] * 2
        refused = server.post("/translate", json={**fields, "target": "capitals"})
        assert (refused.status_code, "Retry-After" in refused.headers) == (503, True)


def test_a_line_that_is_too_long_is_named_before_anything_is_computed(run):
    with client(run) as server:
        fields = {"q": ["abc\nabc", "a" * 10_000], "source": "text", "target": "capitals"}
        answer = server.post("/translate", json=fields)
        assert (answer.status_code, answer.json()["error"]) == (
            400,
            "input 3 has 10000 tokens; the model reads 4095; split it",
        )
        assert 'tokens_in_total{model="capitals"} 0.0' in server.get("/metrics").text


def test_marks_that_end_nowhere_are_text():
    """Looking for the end of each would take minutes."""
    assert TAG.split("<" * 100_000) == ["<" * 100_000]
    assert TAG.split("1 < 2 <b>3</b>") == ["1 < 2 ", "<b>", "3", "</b>", ""]


def test_languages_are_guessed_only_where_asked_and_outside_of_the_event_loop(server, monkeypatch):
    loops = []

    def detect(text, translators):
        loops.append(asyncio._get_running_loop())
        return [{"language": "en", "confidence": 100.0}]

    monkeypatch.setattr("seqwright.serve.dialects.libretranslate._detect", detect)
    fields = {"q": [WORD, WORD], "target": "de"}
    assert server.post("/translate", json={**fields, "source": "en"}).status_code == 200
    assert loops == []
    assert server.post("/translate", json={**fields, "source": "auto"}).status_code == 200
    assert server.post("/detect", json={"q": WORD}).status_code == 200
    assert loops == [None] * 3
    assert server.post("/detect", json={"q": "a" * 20_001}).status_code == 400


@pytest.mark.parametrize("body", [b"{", b"[]", b'"x"', b'{"q": "\\ud800", "source": "en", "target": "de"}'])
def test_bad_bodies_are_400(server, body):
    assert server.post("/translate", content=body).status_code == 400


def test_bad_forms_are_400(server):
    headers = {"Content-Type": "multipart/form-data; boundary=x"}
    assert server.post("/translate", content=b"--y\r\n\r\n", headers=headers).status_code == 400
    headers = {"Content-Type": "multipart/form-data"}
    assert server.post("/translate", content=b"--x", headers=headers).status_code == 400


def test_languages_detection_and_settings(server):
    found = server.get("/languages").json()
    assert {each["code"]: each["targets"] for each in found} == {
        "capitals": [],
        "de": [],
        "en": ["de"],
        "fr": ["de"],
        "text": ["capitals"],
    }
    assert next(each["name"] for each in found if each["code"] == "fr") == "French"
    guesses = server.post("/detect", data={"q": WORD}).json()
    assert sum(each["confidence"] for each in guesses) == pytest.approx(100, abs=0.3)
    assert server.get("/health").json() == {"status": "ok"}
    settings = server.get("/frontend/settings").json()
    assert (settings["keyRequired"], settings["charLimit"]) == (False, 20_000)
    assert (settings["filesTranslation"], settings["supportedFilesFormat"]) == (False, [])
    assert server.post("/translate_file", files={"file": b"abc"}).status_code == 404


def test_the_specification_is_the_openapi_document(server):
    found = server.get("/spec")
    assert (found.status_code, found.json()) == (200, server.get("/openapi.json").json())
    assert 'requests_total{code="200",route="/spec"} 1.0' in server.get("/metrics").text


def test_a_model_is_chosen_by_its_language_pair(server, run, answer, tmp_path):
    def predict(model):
        return server.post("/v1/predict", json={"model": model, "inputs": [WORD]})

    assert [predict(pair).json()["model"] for pair in ("en-de", "fr_DE")] == [
        "letters-en-de",
        "letters-fr-de",
    ]
    body = {"model": "en-de", "prompt": WORD}
    assert server.post("/v1/completions", json=body).json()["choices"][0]["text"] == answer
    assert predict("de-en").status_code == predict("text-capitals").status_code == 404
    with client(*(shutil.copytree(run, tmp_path / f"{name}-en-de") for name in "ab")) as two:
        found = two.post("/v1/predict", json={"model": "en-de", "inputs": [WORD]})
        assert found.status_code == 400
        message = "en-de is the language pair of a-en-de, b-en-de; choose one by its name"
        assert found.json()["error"]["message"] == message


def test_suggestions_are_stored(server, tmp_path):
    fields = {"q": WORD, "s": "FASSADE", "source": "en", "target": "de"}
    assert server.post("/suggest", data=fields).json() == {"success": True}
    assert server.post("/suggest", json={**fields, "s": "Ä\n\u2028"}).json() == {"success": True}
    folder = server.app.models.all["letters-en-de"].predictor.folder
    lines = (folder / "corrections.jsonl").read_text(encoding="utf-8").split("\n")
    stored = [json.loads(line) for line in lines if line]
    assert [(each["source"], each["target"]) for each in stored] == [(WORD, "FASSADE"), (WORD, "Ä\n\u2028")]
    assert server.post("/suggest", json={**fields, "s": ""}).status_code == 400


def test_corrections_are_bounded_and_never_written_through_a_link(run, tmp_path):
    folder = shutil.copytree(run, tmp_path / "letters-en-de")
    fields = {"q": WORD, "s": "FASSADE", "source": "en", "target": "de"}
    with client(folder, limits={"corrections": 150}) as server:
        codes = [server.post("/suggest", json=fields).status_code for _ in range(3)]
        assert codes == [200, 409, 409]
        error = server.post("/suggest", json=fields).json()["error"]
        assert "the run folder must be writable and corrections.jsonl not full" in error
        assert str(folder) not in error
        assert len((folder / "corrections.jsonl").read_bytes()) < 150
        (folder / "corrections.jsonl").unlink()
        other = tmp_path / "other"
        other.write_text("mine")
        (folder / "corrections.jsonl").symlink_to(other)
        assert server.post("/suggest", json=fields).status_code == 409
        assert other.read_text() == "mine"


def test_a_key_may_be_in_the_body(run, tmp_path):
    folder = shutil.copytree(run, tmp_path / "letters-en-de")
    fields = {"q": WORD, "source": "en", "target": "de"}
    with client(folder, keys=["k"], hosts=None) as server:
        for way in ("json", "data", "params"):
            assert server.post("/translate", **{way: {**fields, "api_key": "k"}}).status_code == 200
            refused = server.post("/translate", **{way: {**fields, "api_key": "x"}})
            assert (refused.status_code, refused.json()) == (403, {"error": "Invalid API key"})
            assert server.post("/translate", **{way: fields}).status_code == 403
        assert server.get("/languages").status_code == 403
        for way in ("json", "data", "params"):
            codes = [
                server.request("GET", "/languages", **{way: {"api_key": key}}).status_code for key in "kx"
            ]
            assert codes == [200, 403]


@pytest.mark.slow
@pytest.mark.parametrize("key", [None, "k"])
def test_its_own_client(run, tmp_path, answer, key):
    import libretranslatepy

    folder = shutil.copytree(run, tmp_path / "letters-en-de")
    keys = {} if key is None else {"keys": [key]}
    with application(folder, **keys) as app, Background(app) as server:
        api = libretranslatepy.LibreTranslateAPI(f"{server.url}/", key)
        assert api.translate(WORD, "en", "de") == answer
        assert [each["code"] for each in api.languages()] == ["de", "en"]
        assert api.detect(WORD)[0]["language"] == "en"
