"""The page in a real browser: a translation with a correction, a writing pad, a chat, a classifier."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path

import pytest
from serving import Background, application, direct

from seqwright.serve import page as serve_page

KEY = "open sesame"
BUTTON = "[...document.querySelectorAll('button')].find((each) => each.textContent === {0!r})"

STOP_SOON = f"""new Promise((done) => {{  // sends, and stops as soon as the reply has begun
  const observer = new MutationObserver(() => {{
    const stop = {BUTTON.format("Stop")};
    if (!stop || !document.querySelector(".assistant .text")?.textContent) return;
    observer.disconnect();
    stop.click();
    done(true);
  }});
  observer.observe(document.body, {{ childList: true, subtree: true }});
  const field = document.querySelector(".compose textarea");
  field.dispatchEvent(new KeyboardEvent("keydown", {{ key: "Enter", bubbles: true }}));
}})"""
MODEL = {
    "id": "x",
    "task": "x",
    "traced": True,
    "source": "text",
    "target": "x",
    "roles": [{"name": "a", "kind": "text", "needed": "always"}],
}


@pytest.fixture(scope="module")
def server(run, story, labels, tmp_path_factory):
    folder = shutil.copytree(run, tmp_path_factory.mktemp("page") / "letters-en-ar")
    with application(folder, story, labels, keys=[KEY], hosts=None) as app, Background(app) as found:
        found.folder = folder
        yield found


@pytest.fixture
def visit(browser, server):
    """visit("story/conversation"): the page with a model and a view; it must end without errors."""
    pages = []

    def visit(place, **options):
        page = browser.page(**options)
        pages.append(page)
        page.visit(f"{server.url}/", ready="document.querySelector('input, textarea')")
        if page.count("input[type=password]"):
            page.type("input", KEY)
            page.press("Enter")
        page.wait("document.body.dataset.ready")
        name, _, view = place.partition("/")
        page.evaluate(f"location.hash = {place!r}")
        page.wait(f"document.body.dataset.ready.startsWith({name + '/' + view!r})")
        return page

    yield visit
    for page in pages:
        page.evaluate("0")  # earlier messages have arrived by now
        page.close()
        assert [text for text in page.complaints if "401" not in text] == []
        assert [url for url in page.requests if not url.startswith((server.url, "data:", "blob:"))] == []


def press(page, label):
    page.wait(BUTTON.format(label))
    page.evaluate(f"{BUTTON.format(label)}.click()")


def test_a_translation_its_attention_and_its_correction(visit, server, run):
    page = visit("letters-en-ar")
    assert page.evaluate("[...document.querySelectorAll('.pane h2')].map((each) => each.textContent)") == [
        "English",
        "Arabic",
    ]
    page.type("textarea", "facade")
    wanted = direct(run, ["facade"], n_best=5)[0]
    page.wait("document.querySelectorAll('.choices li').length > 1")
    assert page.text(".output") == wanted["output"]
    assert page.count(".choices li") == 1 + len(wanted["alternatives"])
    page.point(".output .word")
    page.wait("document.querySelectorAll('.mirror mark').length === 6")
    assert page.text(".mirror") == "facade"
    press(page, "Correct")
    page.evaluate("document.querySelector('.output textarea').value = 'FASSADE'")
    press(page, "Save")
    page.wait("document.querySelector('.status').textContent.startsWith('Saved')")
    (stored,) = map(json.loads, (server.folder / "corrections.jsonl").read_text().splitlines())
    del stored["time"]
    assert stored == {"source": "facade", "target": "FASSADE", "output": wanted["output"]}


def test_right_to_left_text_and_narrow_windows(visit):
    page = visit("letters-en-ar", width=390, height=800, dark=True)
    page.type("textarea", "שלום עולם")
    page.wait("document.querySelector('.output .word')")
    assert page.evaluate("getComputedStyle(document.querySelector('textarea')).direction") == "rtl"
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    press(page, "Light")
    assert page.evaluate("document.documentElement.dataset.theme") == "light"
    page.evaluate("localStorage.clear()")


def test_look_inside_is_the_look_page_of_that_input(visit, browser, server):
    page = visit("letters-en-ar")
    page.type("textarea", "cabbage")
    page.wait("document.querySelector('.output .word')")
    press(page, "Look inside")
    page.wait("document.querySelectorAll('form').length === 0")

    def opened():
        infos = browser.call("Target.getTargets")["targetInfos"]
        return [each for each in infos if each["url"].endswith("/v1/look")]

    deadline = time.monotonic() + 15
    while not (found := opened()) or found[0]["title"] != "cabbage":
        assert time.monotonic() < deadline, found
        time.sleep(0.05)
    (found,) = found
    assert "cabbage" not in found["url"]
    browser.call("Target.closeTarget", targetId=found["targetId"])


KEPT_FORMS = """
window.forms = [];
HTMLFormElement.prototype.submit = function submit() { forms.push(Object.fromEntries(new FormData(this))); };
"""


def test_look_inside_takes_the_chosen_alternative(visit):
    page = visit("letters-en-ar")
    page.evaluate(KEPT_FORMS)
    page.type("textarea", "cabbage")
    page.wait("document.querySelectorAll('.choices button').length > 1")
    second = page.evaluate("document.querySelectorAll('.choices button')[1].firstChild.textContent")
    page.evaluate("document.querySelectorAll('.choices button')[1].click()")
    press(page, "Look inside")
    sent = page.evaluate("window.forms.at(-1)")
    assert (sent["input"], sent["output"], sent["format"]) == ("cabbage", second, "html")


def test_a_writing_pad_continues_stops_undoes_and_shows_surprise(visit):
    page = visit("story")
    page.type("textarea", "alpha gimel ")
    press(page, "Continue")
    page.wait("document.querySelector('.status').textContent.includes('tokens')")
    written = page.evaluate("document.querySelector('textarea').value")
    assert written.startswith("alpha gimel ")
    assert len(written) > 30
    press(page, "Again")
    page.wait(f"document.querySelector('.status').textContent.includes('tokens') && {BUTTON.format('Undo')}")
    assert page.evaluate("document.querySelector('textarea').value") != written
    press(page, "Undo")
    assert page.evaluate("document.querySelector('textarea').value") == "alpha gimel "
    page.evaluate("document.querySelector('[role=switch]').click()")
    page.wait("document.querySelectorAll('.shaded .word').length === 12")
    assert page.text(".shaded") == "alpha gimel "
    assert "bits per character" in page.text(".status")


def test_a_chat_replies_regenerates_edits_and_stops(visit):
    page = visit("story/conversation")
    page.type(".compose textarea", "alpha")
    page.press("Enter")
    ready = "document.querySelector('.act').textContent === 'Send'"
    page.wait(f"document.querySelector('.assistant .text')?.textContent.length > 20 && {ready}")
    first = page.text(".assistant .text")
    press(page, "Again")
    page.wait(f"document.querySelector('.assistant .text')?.textContent.length > 20 && {ready}")
    assert page.text(".assistant .text") != first
    press(page, "Edit")
    assert page.count(".message") == 0
    assert page.evaluate("document.querySelector('.compose textarea').value") == "alpha"
    assert page.evaluate(STOP_SOON)
    page.wait(ready)
    kept = page.text(".assistant .text")
    page.type(".compose textarea", "gimel")
    page.press("Enter")  # right after a stop
    page.wait(f"document.querySelectorAll('.assistant').length === 2 && {ready}")
    assert page.text(".assistant .text") == kept


def test_a_classifier_shows_all_labels(visit, labels):
    page = visit("labels")
    page.type("textarea", "abc")
    page.wait("document.querySelector('.bars li')")
    (wanted,) = direct(labels, ["abc"])
    shown = page.evaluate("[...document.querySelectorAll('.bars .name')].map((each) => each.textContent)")
    assert shown == list(wanted["probabilities"])
    assert page.text(".answer h2") == wanted["label"]


def test_a_classifier_of_two_texts_has_a_field_for_each(visit):
    page = visit("labels")
    roles = [{"name": name, "kind": "text", "needed": "always"} for name in ("premise", "hypothesis")]
    roles.append({"name": "label", "kind": "label", "needed": "train"})
    answer = {"label": "up", "probabilities": {"up": 1}}
    model, found = json.dumps({**MODEL, "roles": roles}), json.dumps([answer])
    server = f"{{ predict: async (inputs) => {{ window.sent = inputs; return {found}; }} }}"
    panel = f"document.body.append(panel({model}, {server}))"
    page.evaluate(f"import('./page/panels/text_classification.js').then(({{ panel }}) => {panel})")
    page.wait("document.querySelectorAll('textarea').length === 3")  # one is that of the panel behind
    fields = "[...document.querySelectorAll('textarea')].slice(1)"
    assert page.evaluate(f"{fields}.map((each) => each.ariaLabel)") == ["premise", "hypothesis"]
    for number, text in enumerate(("a man", "a person")):
        assert page.evaluate("window.sent === undefined")  # until both are there
        page.evaluate(f"{fields}[{number}].value = {text!r}")
        page.evaluate(f"{fields}[{number}].dispatchEvent(new Event('input'))")
        time.sleep(0.4)
    page.wait("window.sent")
    assert page.evaluate("window.sent") == [{"premise": "a man", "hypothesis": "a person"}]
    page.wait("document.querySelector('.answer h2')?.textContent === 'up'")


def test_every_panel_is_a_module_that_opens(visit, server):
    """Also those of tasks that are not served here."""
    page = visit("labels")
    names = sorted(path.stem for path in (Path(serve_page.__file__).parent / "panels").glob("*.js"))
    assert {"conversation", "forecasting", "general", "token_classification"} < set(names)
    for name in names:
        opened = f"panel({json.dumps(MODEL)}, {{}}).tagName"
        made = page.evaluate(f"import('./page/panels/{name}.js').then(({{ panel }}) => {opened})")
        assert made == "SECTION"


WAVES = {**MODEL, "columns": ["y"], "known": ["price"], "horizon": 2}
FORECAST = {
    "times": ["2024-01-03", "2024-01-04"],
    "output": {"y": [1, 2]},
    "low_80": {"y": [0, 1]},
    "high_80": {"y": [2, 3]},
    "remark": "not known in advance: price for 1 of 2 steps",
}


def test_a_forecaster_takes_rows_with_times_and_a_horizon(visit):
    """The panel sends them to a server that records what it gets."""
    page = visit("labels")
    page.evaluate(
        f"""import('./page/panels/forecasting.js').then(({{ panel }}) => {{
          window.sent = [];
          const predict = async ([given], options) => {{
            sent.push([given, options]);
            return [{json.dumps(FORECAST)}];
          }};
          document.body.append(panel({json.dumps(WAVES)}, {{ predict, look: (given) => sent.push(given) }}));
        }})"""
    )
    field, horizon = ".numbers textarea", "input[aria-label=Horizon]"
    assert page.evaluate(f"document.querySelector({horizon!r}).placeholder") == "2"

    def send(text, steps=""):
        page.evaluate(f"sent.length = 0; document.querySelector({field!r}).value = {text!r}")
        page.evaluate(f"document.querySelector({horizon!r}).value = {steps!r}")
        page.evaluate(
            f"document.querySelector({field!r}).dispatchEvent("
            "new KeyboardEvent('keydown', { key: 'Enter', ctrlKey: true }))"
        )

    send("ds,price,y\n2024-01-01,7,1\n2024-01-02,8,\n2024-01-03,9,3\n2024-01-04,9,\n", "5")
    page.wait("document.querySelector('.remark')")
    given = {
        "target": [1, None, 3],
        "known": [[7], [8], [9], [9]],
        "start": "2024-01-01",
        "end": "2024-01-04",
    }
    assert page.evaluate("sent") == [[given, {"horizon": 5}]]
    assert page.text(".remark") == FORECAST["remark"]
    status = "[...document.querySelectorAll('.numbers ~ .status')].at(-1).textContent"
    assert page.evaluate(status).startswith("2024-01-03 to 2024-01-04 · ")
    points = page.evaluate("document.querySelector('.charts polyline').getAttribute('points')")
    assert len(points.split()) == 2
    press(page, "Look inside")
    assert page.evaluate("sent.at(-1)") == given
    send("2024-01-01;1,5;3\n2024-01-02;2,5;3")
    page.wait("sent.length")
    given = {"target": [1.5, 2.5], "known": [[3], [3]], "start": "2024-01-01", "end": "2024-01-02"}
    assert page.evaluate("sent") == [[given, {}]]
    send("1 2 3")
    page.wait("sent.length")
    assert page.evaluate("sent") == [[{"target": [1, 2, 3]}, {}]]
    for text, words in (
        ("ds,z\n2024-01-01,1", "There is no column y; the model reads y, price."),
        ("ds,y,price\n2024-01-01,x,1", "Not all of this is numbers."),
        ("unique_id,ds,y,price\na,2024-01-01,1,1", "without the column unique_id"),
    ):
        send(text)
        page.wait(f"{status}.includes({words!r})")
        assert page.evaluate("sent") == []


def test_the_files_of_the_page_need_no_key_and_nothing_else_is_served(server):
    import urllib.error
    import urllib.request

    with urllib.request.urlopen(f"{server.url}/") as answer:
        assert "script-src 'self'" in answer.headers["Content-Security-Policy"]
    for path in ("page/__init__.py", "page/../guard.py", "page/%2e%2e/guard.py", "page/lens/bundle.py"):
        with pytest.raises(urllib.error.HTTPError, match=r"404|403"):
            urllib.request.urlopen(f"{server.url}/{path}")
