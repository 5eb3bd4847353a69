"""The report page: well-formed HTML that loads and runs nothing, for any run folder."""

from __future__ import annotations

import re
import time
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_sample import CONFIG, HOSTILE, data, make_run, step, validation, write

from seqwright import cli
from seqwright.errors import ModelError, WriteError
from seqwright.runs.folder import Run
from seqwright.runs.report import write_report
from seqwright.runs.report.learning import MOST_ROWS
from seqwright.runs.report.markup import VOID, Markup, element, quoted, show_invisible
from seqwright.runs.report.page import SECTIONS

FILES = ("metrics.jsonl", "data.json", "evaluation.json", "examples.json", "model.safetensors")


class Reader(HTMLParser):
    """Collect every tag with its attributes; a tag that is not closed once is an error."""

    def __init__(self, page: str):
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.ids: list[str] = []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.ids += [value for name, value in attrs if name == "id"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_run(tmp_path / "run")


def page_of(folder: Path) -> str:
    return write_report(folder).read_text(encoding="utf-8")


def references(reader: Reader) -> set[str | None]:
    """Return everything that a page could load or link to."""
    names = ("href", "src", "xlink:href", "srcset", "action", "data", "poster", "style")
    return {attributes[name] for _, attributes in reader.tags for name in names if name in attributes}


@pytest.mark.parametrize("text", ["pairs", HOSTILE], ids=["plain", "hostile"])
def test_the_page_is_well_formed_and_loads_nothing(tmp_path, text):
    page = page_of(make_run(tmp_path / "run", text))
    reader = Reader(page)
    inside = {f"#{name}" for name in SECTIONS if name != "forecasts"}  # of series only
    assert references(reader) == inside | {"data:,"}
    assert inside <= {f"#{name}" for name in reader.ids}
    assert len(reader.ids) == len(set(reader.ids))
    assert {"script", "img", "iframe", "object", "form"}.isdisjoint(tag for tag, _ in reader.tags)
    assert not any(name.startswith("on") for _, attributes in reader.tags for name in attributes)
    assert "url(" not in page.replace(HOSTILE, "")
    assert "default-src 'none'" in page.replace("&#x27;", "'")


def test_no_text_of_the_user_changes_the_page(tmp_path):
    """The tags are the same for any texts; the texts are escaped."""
    pages = [page_of(make_run(tmp_path / name, text)) for name, text in (("a", "harmless"), ("b", HOSTILE))]
    shapes = [[tag for tag, _ in Reader(page).tags] for page in pages]
    # Only the number of marked differences depends on the length of a text.
    marks = {"ins", "del"}
    assert [t for t in shapes[0] if t not in marks] == [t for t in shapes[1] if t not in marks]
    assert "".join(Reader(pages[1]).text).count("<img src=http://evil.example/x onerror=alert(1)>") > 30
    assert not re.search("[\x00\u202e]", pages[1])
    assert "⟨U+202E⟩" in pages[1]


def test_the_same_folder_gives_the_same_bytes(folder):
    first = write_report(folder).read_bytes()
    assert write_report(folder).read_bytes() == first
    Run.open(folder).log(step(40))
    assert write_report(folder).read_bytes() != first


@pytest.mark.parametrize("missing", [*((name,) for name in FILES), FILES], ids=lambda names: "+".join(names))
def test_a_missing_file_affects_no_other_section(folder, missing):
    whole = Reader(page_of(folder))
    for name in missing:
        (folder / name).unlink()
    reader = Reader(page_of(folder))
    assert reader.ids == whole.ids
    if missing == FILES:
        assert "The run folder has no data.json." in reader.text
        assert "No scores yet: there was no validation and no test." in reader.text
    elif missing != ("examples.json",):  # the evaluation has examples of its own
        assert reader.text != whole.text


def test_configuration_and_log_are_enough(tmp_path):
    run = Run.create(tmp_path / "run", CONFIG)
    for number in (10, 20, 30):
        run.log(step(number))
        run.log({key: value for key, value in validation(number, "x").items() if key != "probes"})
    text = "".join(Reader(page_of(run.folder)).text)
    assert "validation that selected the weights, step 20: the run folder has no evaluation.json" in text
    assert "Learning rate" in text
    assert "20.0 %" in text
    assert "step 20, the latest within one standard error of the best by exact match" in text


def test_an_older_log_names_the_best_step(tmp_path):
    run = Run.create(tmp_path / "run", CONFIG)
    for number in (10, 20, 30):
        entry = validation(number, "x")
        best = entry.pop("kept")
        run.log({**entry, "best": best})
    text = "".join(Reader(page_of(run.folder)).text)
    assert "The weights are those of step 20, the best by exact match" in text


@pytest.mark.parametrize(
    "damage",
    [
        b"{",
        b"[]",
        b'{"format": 2}',
        b'{"format": 1, "metrics": {"exact_match": "x"}}',
        b'{"format": 1, "items": -1}',
        b'{"format": 1, "metrics": {"exact_match": NaN}}',
    ],
)
def test_a_damaged_file_is_named_and_not_used(folder, damage):
    (folder / "evaluation.json").write_bytes(damage)
    text = "".join(Reader(page_of(folder)).text)
    assert "valuation.json is not used: " in text
    assert "Length of a source" in text


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        (2, "has format 2, but this version reads format 1"),
        (0, "has format 0, but"),
        (None, "no format number"),
    ],
)
def test_another_format_is_named(folder, written, reason):
    write(folder, "evaluation", {"format": written})
    page = page_of(folder)
    assert "valuation.json is not used: it has" in page
    assert reason in page


def test_outputs_that_are_not_texts_are_shown(folder):
    example = {"source": "a", "output": [0.25, 2], "references": [[1, 2]], "kind": "sample"}
    write(folder, "evaluation", {"metrics": {"exact_match": 0.0}, "examples": [example]})
    text = "".join(Reader(page_of(folder)).text)
    assert "[0.25, 2]" in text
    assert "[1, 2]" in text


def test_the_data_document_names_examples_and_columns(folder):
    """A task with other data than pairs has its own unit and columns."""
    texts = data("x")["source"]
    write(folder, "data", {"unit": "review", "reviews": 70, "text": texts, "split": {"train": 60}})
    text = "".join(Reader(page_of(folder)).text)
    assert "trained for 3 min 00 s on 60 reviews" in text
    assert "70 reviews." in text
    assert "Length of a text" in text
    assert "pair" not in text[text.index("Length of a text") : text.index("Automatic choices", 2000)]


@pytest.mark.parametrize(
    "config", [{}, {"model": 3, "training": "x", "data": [], "tokenizer": None, "seed": []}]
)
def test_a_foreign_configuration_gives_a_page(tmp_path, config):
    assert Reader(page_of(Run.create(tmp_path / "run", config).folder)).ids


def test_a_foreign_configuration_gives_a_page_of_a_whole_run(folder):
    run = Run.open(folder)
    odd = {"data": {"train": [1, None, "x.tsv"]}, "training": {"metric": ["bleu"]}}
    run.configure({**run.config, **odd})
    assert "test.tsv" in "".join(Reader(page_of(folder)).text)


def test_foreign_records_give_a_page(folder):
    run = Run.open(folder)
    odd: list[object] = [None, True, "x", [], {}, -1, 1e400, 10**400, [1], {"a": 1}]
    for value in odd:
        run.log({"step": value, "loss": 1.0})
        run.log(
            dict.fromkeys([*step(50), *validation(50, "x"), "skipped", "save_failed"], value) | {"step": 50}
        )
        run.log({"step": 60, "skipped": {"examples": value}, "findings": [value], "probes": [value]})
    assert "a step without a finite gradient was skipped" in "".join(Reader(page_of(folder)).text)


def test_scores_intervals_and_signatures_come_first(folder):
    page = page_of(folder)
    head = page[: page.index("<nav")]
    for expected in (
        "61.2",
        "95 % interval 58.0 – 64.5",
        "baseline 3.4 %",
        "Measured on 10 items from 12 examples",
    ):
        assert expected in head
    assert "2 held-out pairs share their input with the training data" in head
    assert "A Transformer encoder-decoder with 17 parameters, trained for 3 min 00 s on 61 pairs" in head


def test_overlap_is_reported_by_split(folder):
    sentences = {
        (1, 2): "1 validation pair and 2 test pairs share their input with the training data.",
        (1, 0): "1 validation pair shares its input with the training data.",
        (0, 0): "No held-out pair shares its input with the training data.",
    }
    for (valid, test), sentence in sentences.items():
        write(
            folder,
            "data",
            {**data("pairs"), "leaks": valid + test, "leaks_by_part": {"valid": valid, "test": test}},
        )
        page = "".join(Reader(page_of(folder)).text)
        assert sentence in page
        assert (
            "2 test pairs share their input with the training data, so the scores are too good" in page
        ) == bool(test)
        assert (
            "validation pair shares its input with the training data, so" not in page
        )  # only the test scores


def test_findings_that_differ_in_numbers_are_listed_once(folder):
    text = "".join(Reader(page_of(folder)).text)
    assert text.count("outputs are the same") == 1
    assert "steps 10 to 30, 3 times" in text


def test_scores_are_drawn_on_a_linear_scale(tmp_path):
    run = Run.create(tmp_path / "run", CONFIG)
    for number, (loss, bleu) in enumerate(((6.0, 0.2), (5.0, 15.0), (4.0, 40.0)), start=1):
        run.log({"step": number, "valid_loss": loss, "bleu": bleu})
    assert ">logarithmic<" not in page_of(run.folder)
    run.log({"step": 4, "valid_loss": 0.01, "bleu": 41.0})
    assert page_of(run.folder).count(">logarithmic<") == 1  # the loss may be


def test_probes_mark_what_changed_and_what_is_right(tmp_path):
    run = Run.create(tmp_path / "run", CONFIG)
    for number, output in ((10, "a b"), (20, "a c"), (30, "a c"), (40, "a c d")):
        run.log(
            {
                "step": number,
                "valid_loss": 1.0,
                "probes": [{"source": "s", "reference": "a c d", "output": output}],
            }
        )
    page = page_of(run.folder)
    table = page[page.index('id="probes"') : page.index('id="data"')]
    assert re.findall("<ins>(.*?)</ins>", table) == ["a b", "c", "d"]
    assert table.count("✓</span>") == 1
    assert re.findall('scope="row">(.*?)<', table) == ["10", "20", "40", "reference"]


def test_many_probes_are_thinned_and_compared_with_the_row_above(tmp_path):
    run = Run.create(tmp_path / "run", CONFIG)
    for number in range(1, 101):
        output = " ".join(str(n) for n in range(number))
        run.log({"step": number, "valid_loss": 1.0, "probes": [{"source": "s", "output": output}]})
    page = page_of(run.folder)
    table = page[page.index('id="probes"') : page.index('id="data"')]
    steps = re.findall(r'scope="row">(\d+)<', table)
    assert len(steps) <= MOST_ROWS
    assert steps[-1] == "100"
    assert " ".join(re.findall("<ins>(.*?)</ins>", table)) == " ".join(map(str, range(100)))


def test_five_thousand_records_take_less_than_a_second(tmp_path):
    run = Run.create(tmp_path / "run", CONFIG)
    lines = [step(n, loss=5 / n**0.3 + n % 7) for n in range(1, 5001)]
    lines += [validation(n, "x") for n in range(100, 5001, 100)]
    for line in lines:
        run.log(line)
    began = time.perf_counter()
    page = page_of(run.folder)
    assert time.perf_counter() - began < 1
    drawn = re.findall(r'd="(M[^"]*h0)"', page)
    assert drawn
    assert all(path.count("M") <= 600 for path in drawn)


def test_the_command_writes_the_page_and_prints_its_path(folder, capsys):
    assert cli.main(["report", str(folder)]) == 0
    assert capsys.readouterr().out == f"{folder / 'report.html'}\n"
    assert not (folder / "README.md").exists()  # users may have edited it
    assert cli.main(["report", str(folder / "nothing")]) == ModelError.exit_code
    assert "does not exist" in capsys.readouterr().err
    (folder / "report.html").unlink()
    (folder / "report.html").mkdir()
    assert cli.main(["report", str(folder)]) == WriteError.exit_code


def test_the_commands_of_the_page_exist(folder):
    named = re.findall("<code>seqwright ([a-z]+)", page_of(folder))
    assert {"predict", "evaluate", "train"} <= set(named)
    assert set(named) <= set(cli.COMMANDS)


@given(st.text(max_size=30))
def test_any_text_is_kept(text):
    reader = Reader(element("p", text, title=text))
    assert "".join(reader.text) == show_invisible(text)
    assert reader.tags[0][1]["title"] == show_invisible(text)
    show_invisible(text).encode("utf-8")


def test_markup_is_kept_and_text_is_escaped():
    assert element("p", Markup("<b></b>"), "<b>", None, hidden=True, id=None, x=1.50) == (
        '<p hidden x="1.5"><b></b>&lt;b&gt;</p>'
    )


def test_fields_of_a_source_are_separated():
    joined, line = quoted("gehen\ufdd1V\ufdd1PST"), quoted("gehen\tV;PST")
    assert joined == line  # as `predict` reads it
    assert Reader(line).text == ["gehen", "\\t", "V;PST"]


def test_without_examples_of_a_test_the_stored_ones_are_shown(folder):
    write(folder, "evaluation", {})
    assert "stored examples" in page_of(folder)


def test_the_fields_of_a_source_survive_copying_a_command(folder):
    """Browsers show and copy a tab as a space."""
    write(folder, "examples", {"examples": [{"source": "don't\tV", "output": "x", "log_prob": -0.5}]})
    (line,) = (text for text in Reader(page_of(folder)).text if "seqwright look" in text)
    assert line == r"seqwright look run $'don\'t\tV' -o look.html"


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"training": {"minutes": 5.0}}, "A time limit set the learning rates of this training"),
        ({"training": {"steps": 30}}, "the weights will be equal with the same number of threads"),
        ({"training": {"steps": 30}, "threads": 1}, "the weights will be equal."),
    ],
)
def test_the_page_states_whether_training_is_reproducible(tmp_path, changed, sentence):
    folder = make_run(tmp_path / "run")
    Run.open(folder).configure({**CONFIG, "threads": None, **changed})
    assert sentence in write_report(folder).read_text(encoding="utf-8")


@pytest.mark.parametrize("odd", [None, [1], {"a": 3}, {"a": [None, "x", -1.0, 2.0]}])
def test_the_tokens_of_each_expert_are_shown(folder, odd):
    run, name = Run.open(folder), "decoder.stack.blocks.0.feed_forward"
    run.log({**validation(40, "pairs"), "experts": {name: [0.75, 0.25]}})
    page = page_of(folder)
    Reader(page)
    assert "Share of the tokens that each expert receives" in page
    assert [each in page for each in ("decoder 0, expert 1", "75 %", "25 %")] == [True] * 3
    run.log({**validation(50, "pairs"), "experts": odd})
    assert "each expert receives" not in page_of(folder)
