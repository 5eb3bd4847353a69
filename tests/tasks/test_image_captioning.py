"""Image captioning: recognition, several captions of an image, inputs of every kind, and the commands."""

from __future__ import annotations

import io
import json
import re
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny
from PIL import Image

import seqwright
from seqwright import cli
from seqwright.config import parse
from seqwright.data.corpus import Corpus
from seqwright.data.images import to_uri
from seqwright.data.task import group_items
from seqwright.data.tokenizer import END
from seqwright.errors import ConfigError, InputError, ModelError
from seqwright.models.building import resolve
from seqwright.pipeline.design import design
from seqwright.tasks.image_captioning import most_typical
from seqwright.training.encoder_start import check_encoder_start
from seqwright.training.run import check_parts, train

FAST = {
    "tokens": 64,
    "steps": 8,
    "validations": 1,
    "optimizer": {"kind": "adamw", "rate": 1e-2},
    "smoothing": 0.0,
    "traces": 0,
}
SMALL = {
    "preset": "cnn-transformer",
    "encoder": {"size": 16, "layers": 1, "stem": "small"},
    "decoder": {"size": 16, "hidden": 16, "layers": 1, "heads": 2},
}
CAPTIONS = {
    True: ("a bright sky above the sea", "the day begins on the beach", "light over water"),
    False: ("a dark sky above the sea", "the night begins on the beach", "stars over water"),
}


def pixels(day: bool, draw: np.random.Generator, size: int = 12) -> np.ndarray:
    """Noise, with a bright half: above by day, below by night."""
    found = draw.integers(0, 90, (size, size, 3), dtype=np.uint8)
    found[slice(0, size // 2) if day else slice(size // 2, size)] += 150
    return found


def encoded(image: np.ndarray) -> bytes:
    file = io.BytesIO()
    Image.fromarray(image).save(file, "PNG")
    return file.getvalue()


def beach(folder: Path, count: int = 40) -> Path:
    """A table of three captions for each of `count` images in an archive."""
    draw, lines = np.random.default_rng(0), []
    with zipfile.ZipFile(folder / "images.zip", "w") as archive:
        for number in range(count):
            archive.writestr(f"{number}.png", encoded(pixels(number % 2 == 0, draw)))
            lines += [f"{number}.png\t{caption}\n" for caption in CAPTIONS[number % 2 == 0]]
    (folder / "captions.tsv").write_text("".join(lines))
    return folder / "captions.tsv"


def configured(file: Path, model: Any = None, **training: Any):
    data = {
        "train": [str(file)],
        "held_out": 0.2,
        "image_size": 12,
        "augment": ["crop"],
        "images": str(file.parent / "images.zip"),
    }
    options = {**FAST, **training}
    table = {"task": "image_captioning", "data": data, "model": model or SMALL, "training": options}
    return parse({**table, "threads": 1})


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("captions")
    tiny.train(configured(beach(folder)), folder / "run")
    return folder / "run"


# Recognition and the recipe ------------------------------------------------------------------------


def test_a_table_of_paths_and_captions_is_recognised_and_designed(tmp_path):
    file = beach(tmp_path)
    designed = design({"data": {"train": [str(file)], "images": str(tmp_path / "images.zip")}})
    assert designed.config.task == "image_captioning"
    text = "\n".join(designed.lines())
    assert "120 captions of 40 images" in text
    assert "column 1 names images, column 2 has captions" in text
    assert "no header: recognised by the names of images; columns 1:2: the image and its text" in text
    assert "augmentation: crop, flip" in text  # no caption names a side
    assert "with another target" not in text  # an image may have several captions
    assert designed.config.training.metric == "cider"


@pytest.mark.parametrize("prefix", ["", "photos/"])
@pytest.mark.parametrize("order", [1, -1])
def test_a_folder_and_the_table_that_names_its_images(prefix, order, tmp_path, monkeypatch, capsys):
    """Paths are relative to the folder, or to the table; other folders next to them are not read."""
    draw, lines = np.random.default_rng(0), []
    (tmp_path / "photos").mkdir()
    for number in range(40):
        (tmp_path / "photos" / f"{number}.png").write_bytes(encoded(pixels(number % 2 == 0, draw)))
        lines += [f"{prefix}{number}.png\t{caption}\n" for caption in CAPTIONS[number % 2 == 0]]
    (tmp_path / "captions.tsv").write_text("".join(lines))
    monkeypatch.chdir(tmp_path)
    given = ["photos/", "captions.tsv"][::order]
    designed = design({"data": {"train": given}})
    assert designed.config.data.train == ("captions.tsv",)
    assert designed.config.data.images == ("." if prefix else "photos/")
    assert "120 captions of 40 images" in "\n".join(designed.lines())
    assert cli.main(["doctor", *given]) == 0
    assert "40 distinct images" in capsys.readouterr().out


def test_sides_in_captions_forbid_flips_and_short_captions_are_compared_by_words(tmp_path):
    draw, lines = np.random.default_rng(0), []
    for number in range(40):
        (tmp_path / f"{number}.png").write_bytes(encoded(pixels(True, draw)))
        lines.append(f"{number}.png\t{'left' if number % 2 else 'right'} arrow {number}\n")
    (tmp_path / "arrows.tsv").write_text("".join(lines))
    designed = design({"data": {"train": [str(tmp_path / "arrows.tsv")]}})
    assert designed.config.data.augment == ("crop",)
    assert "100 % of the captions name left or right" in "\n".join(designed.lines())
    assert designed.config.training.metric == "word_f1"


def test_an_encoder_that_reads_no_images_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"model\.encoder is transformer, which reads no images; use cnn"):
        check_parts(configured(beach(tmp_path), {"preset": "tiny", "share": False}))


def test_mixup_is_refused(tmp_path):
    config = configured(beach(tmp_path))
    with pytest.raises(ConfigError, match="captions cannot be mixed"):
        check_parts(replace(config, data=replace(config.data, augment=("crop", "mixup"))))


# Several captions ----------------------------------------------------------------------------------


def test_the_captions_of_an_image_are_one_item_in_one_part(run):
    task, corpus = seqwright.load(run).task, Corpus.of(configured(run.parent / "captions.tsv"))
    parts = [list(corpus.examples(part)) for part in ("train", "valid", "test")]
    assert sum(map(len, parts)) == 120
    for examples in parts:
        items, references, order = group_items(task, examples)
        assert len(examples) == 3 * len(items) == len(order)
        assert all(tuple(given) in CAPTIONS.values() for given in references)


def test_an_image_with_several_captions_is_stored_once(run):
    offsets = np.fromfile(run / "data" / "train" / "pixels.offsets", "<i8")
    captions = np.fromfile(run / "data" / "train" / "target.offsets", "<i8")
    assert len(captions) - 1 == 3 * (len(offsets) - 1)


def test_the_typical_caption_has_the_most_frequent_words_and_is_not_short():
    captions = ["a", "a dog on the grass", "a dog on the grass runs", "a cat on a dog", "zebras run in herds"]
    assert most_typical([*captions, "a dog on the sand"]) == "a dog on the grass"


def test_the_contact_sheet_begins_with_right_captions_and_ends_with_wrong_ones(run):
    model = seqwright.load(run)
    found = model.evaluate(str(run.parent / "captions.tsv"))
    sheet = model.task.contact_sheet(found.items)
    assert {each["kind"] for each in sheet} <= {"best", "worst"}
    assert all(each["image"].startswith("data:image/jpeg;base64,") for each in sheet)
    best, worst = ([e for e in sheet if e["kind"] == kind] for kind in ("best", "worst"))
    right = [item for item in found.items if item.output.text in item.references]
    assert sum(each["output"] == each["expected"] for each in best) == min(12, len(right))
    assert all(each["output"] != each["expected"] for each in worst)


def test_an_evaluation_shows_the_score_of_one_fixed_caption(run):
    found = seqwright.load(run).evaluate(str(run.parent / "captions.tsv"))
    assert len(found.items) == 40
    assert set(found.metrics) == {
        *("cider", "bleu_1", "bleu_2", "bleu_3", "bleu_4", "chrf", "word_f1", "exact_match", "distinct")
    }
    assert found.baseline["exact_match"] == 50.0
    assert found.baseline.keys() == found.metrics.keys() - {"distinct"}
    assert found.to_json()["signatures"]["bleu_4"].startswith("nrefs:3")


@pytest.mark.parametrize("name", ["photos", "photos.zip", "photos.zip/inside"])
def test_an_evaluation_takes_other_images_than_those_of_the_run(run, name, tmp_path, capsys):
    draw, home = np.random.default_rng(3), tmp_path / name
    if ".zip" in name:
        with zipfile.ZipFile(tmp_path / "photos.zip", "w") as archive:
            archive.writestr("inside/new.png", encoded(pixels(True, draw)))
    else:
        home.mkdir()
        (home / "new.png").write_bytes(encoded(pixels(True, draw)))
    (tmp_path / "new.tsv").write_text("".join(f"new.png\t{caption}\n" for caption in CAPTIONS[True]))
    for given in ([str(home), str(tmp_path / "new.tsv")], [str(tmp_path / "new.tsv"), str(home)]):
        assert cli.main(["evaluate", str(run), *given, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["items"] == 1
    assert cli.main(["evaluate", str(run), str(tmp_path / "new.tsv")]) == 2
    assert f"or name their folder, too: FOLDER {tmp_path / 'new.tsv'}" in capsys.readouterr().err


# Inputs --------------------------------------------------------------------------------------------


def test_inputs_of_every_kind_give_the_same_caption(run, tmp_path):
    image = pixels(True, np.random.default_rng(5))
    path = tmp_path / "photo.png"
    path.write_bytes(encoded(image))
    model = seqwright.load(run)
    kinds = [str(path), path, encoded(image), Image.fromarray(image), image, image / 255, to_uri(image)]
    assert len({model.predict([each])[0].text for each in kinds}) == 1
    assert model.predict(str(tmp_path))[0].text == model(str(path))
    with pytest.raises(InputError, match="is not an image; give a path"):
        model.predict([7])
    with pytest.raises(InputError, match=r"give a list of \(image, caption\)"):
        model.evaluate([("only.png",)])


def test_the_command_captions_several_images(run, tmp_path, capsys):
    draw = np.random.default_rng(6)
    names = [str(tmp_path / name) for name in ("photo.png", "other.png")]
    for name in names:
        Path(name).write_bytes(encoded(pixels(True, draw)))
    assert cli.main(["predict", str(run), *names, "--json"]) == 0
    found = capsys.readouterr()
    lines = [json.loads(line) for line in found.out.splitlines()]
    assert [line["source"] for line in lines] == names
    assert found.err == ""  # an image is not longer than those of training
    assert all(isinstance(line["output"], str) for line in lines)
    assert cli.main(["predict", str(run), str(tmp_path / "missing.png")]) != 0
    assert "missing.png does not exist" in capsys.readouterr().err


def test_a_caption_can_be_scored_and_begun(run):
    model, draw = seqwright.load(run), np.random.default_rng(7)
    image = pixels(True, draw)
    long, short = model.score([(image, "a bright sky above the sea"), (image, "stars")])
    assert np.isfinite([long, short]).all()
    assert model.predict([image], prefix="the night")[0].text.startswith("the night")


@pytest.mark.parametrize("beam", [1, 3])
def test_a_caption_is_never_empty(run, beam, monkeypatch):
    model = seqwright.load(run)
    step = model.model.step

    def ending(tokens, state):
        scores, state = step(tokens, state)
        scores[:, END] += 100
        return scores, state

    monkeypatch.setattr(model.model, "step", ending)
    (found,) = model.predict([pixels(True, np.random.default_rng(7))], beam=beam)
    assert found.text


# An encoder of another run --------------------------------------------------------------------------


def photos(home: Path) -> Path:
    """Images of two classes in folders."""
    draw = np.random.default_rng(0)
    for number in range(40):
        folder = home / "photos" / ("day" if number % 2 else "night")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number}.png").write_bytes(encoded(pixels(bool(number % 2), draw)))
    return home / "photos"


def test_the_documented_commands_start_from_the_encoder_of_a_run(tmp_path, monkeypatch):
    photos(tmp_path)
    lines = [f"photos/{'day' if n % 2 else 'night'}/{n}.png\tpicture {n} of many\n" for n in range(40)]
    (tmp_path / "captions.tsv").write_text("".join(lines))
    monkeypatch.chdir(tmp_path)
    short = ["--steps", "1", "--threads", "1", "--quiet"]
    sizes = ["model.encoder.size=128", "model.encoder.layers=2", "model.encoder.stem=large"]
    assert cli.main(["train", "photos", *sizes, *short]) == 0
    for data in ("captions.tsv", "photos"):
        out = f"runs/{data}-started"
        assert cli.main(["train", data, "model.encoder.start=runs/photos", *short, "--out", out]) == 0
        first, started = (seqwright.load(run).model.encoder for run in ("runs/photos", out))
        assert [each.shape for each in first.parameters()] == [each.shape for each in started.parameters()]


@pytest.mark.parametrize("preset", [None, "xu2015", "vit-transformer"])
@pytest.mark.parametrize("sizes", [{}, {"kind": "cnn", "size": 24}])
def test_an_encoder_that_starts_from_a_run_has_its_kind_and_sizes(run, preset, sizes):
    data = {"train": [str(run.parent / "captions.tsv")], "images": str(run.parent / "images.zip")}
    model = {"encoder": {"start": str(run), **sizes}, **({} if preset is None else {"preset": preset})}
    designed = design({"data": data, "model": model})
    described = resolve(designed.config.model)
    assert described["decoder"]["kind"] == ("rnn" if preset == "xu2015" else "transformer")
    if sizes:  # a kind that is requested is that of no run
        assert {**described["encoder"], **sizes} == described["encoder"]
        return
    taken = seqwright.load(run).model.encoder
    assert (described["encoder"]["kind"], described["encoder"]["size"]) == ("resnet", taken.size)
    assert f"encoder resnet of {run}: the model starts with its weights" in "\n".join(designed.lines())
    check_encoder_start(designed.config.model)


@pytest.mark.parametrize(
    ("option", "change"),
    [
        ({"colours": "imagenet"}, 'colours: "half" -> "imagenet"'),
        ({"kind": "cnn"}, 'kind: "resnet" -> "cnn"'),
    ],
)
def test_an_encoder_with_other_options_is_refused_before_there_is_a_folder(run, option, change, tmp_path):
    model = {**SMALL, "encoder": {**SMALL["encoder"], "start": str(run), **option}}
    if "kind" in option:
        del model["encoder"]["stem"]
    with pytest.raises(ModelError, match=re.escape(f"{run} has another encoder ({change}); use its options")):
        train(configured(run.parent / "captions.tsv", model), tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_the_encoder_of_a_classifier_is_taken_over(run, tmp_path):
    encoder = {"kind": "resnet", "stages": 3, **SMALL["encoder"]}
    data = {"train": [str(photos(tmp_path))], "held_out": 0.2, "image_size": 12}
    classifier = {"preset": "resnet20", "encoder": encoder}
    table = {"task": "image_classification", "data": data, "model": classifier, "training": FAST}
    tiny.train(parse({**table, "threads": 1}), tmp_path / "classifier")
    known = seqwright.load(tmp_path / "classifier").model.encoder.state_dict()
    model = {
        **SMALL,
        "encoder": {**SMALL["encoder"], "shortcut": "pad", "start": str(tmp_path / "classifier")},
    }
    still = {"steps": 1, "optimizer": {"kind": "adamw", "rate": 1e-9}}
    tiny.train(configured(run.parent / "captions.tsv", model, **still), tmp_path / "captioner")
    found = seqwright.load(tmp_path / "captioner").model.encoder.state_dict()
    weights = [name for name in known if name.endswith("weight")]
    assert weights
    for name in weights:
        np.testing.assert_allclose(found[name], known[name], atol=1e-5)
