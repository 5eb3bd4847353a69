"""Image classification: the recipe, inputs of every kind, exact training, faults, and the commands."""

from __future__ import annotations

import io
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny
import torch
from PIL import Image

import seqwright
from seqwright import cli
from seqwright.config import parse
from seqwright.data.images import to_uri
from seqwright.data.store import Store
from seqwright.errors import InputError, ModelError
from seqwright.evaluation.metrics import METRICS
from seqwright.models.building import build_model, resolve
from seqwright.pipeline.design import design
from seqwright.recipes.bases.images import names_side
from seqwright.runs.report.contact_sheet import contact_sheet
from seqwright.runs.report.page import write_report
from seqwright.runs.report.reader import Document
from seqwright.tasks.image_classification import ImageClassification
from seqwright.training.run import check_parts

FAST = {
    "tokens": 16,
    "steps": 8,
    "validations": 1,
    "optimizer": {"kind": "adamw", "rate": 1e-2},
    "smoothing": 0.0,
    "traces": 0,
}
SMALL = {"preset": "resnet20", "size": 16, "layers": 1}


def picture(label: str, draw: np.random.Generator, size: int = 12) -> np.ndarray:
    """Noise, with a bright half: above for day, below for night."""
    pixels = draw.integers(0, 90, (size, size, 3), dtype=np.uint8)
    half = slice(0, size // 2) if label == "day" else slice(size // 2, size)
    pixels[half] += 150
    return pixels


def photos(
    folder: Path,
    count: int = 60,
    labels: tuple[str, ...] = ("day", "night"),
    grey: bool = False,
    size: int = 12,
) -> str:
    draw = np.random.default_rng(0)
    for number in range(count):
        label = labels[number % len(labels)]
        (folder / label).mkdir(parents=True, exist_ok=True)
        image = Image.fromarray(picture("day" if label == labels[0] else "night", draw, size))
        (image.convert("L") if grey else image).save(folder / label / f"{number}.png")
    return str(folder)


def configured(folder: str, model: Any = SMALL, **training: Any):
    data = {"train": [folder], "held_out": 0.2, "image_size": 12, "augment": ["crop", "colour", "mixup"]}
    table = {"task": "image_classification", "data": data, "model": model, "training": {**FAST, **training}}
    return parse({**table, "threads": 1})


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    home = tmp_path_factory.mktemp("photos")
    folder, out = photos(home / "photos", 80), home / "run"
    options = {**FAST, "steps": 60}
    seqwright.train(folder, out=out, quiet=True, model=SMALL, training=options, threads=1)
    return out, folder


# The recipe ----------------------------------------------------------------------------------------


def test_what_the_recipe_chooses_for_photographs(tmp_path):
    made = design({"data": {"train": [photos(tmp_path / "photos")]}})
    assert made.config.task == "image_classification"
    assert made.config.data.image_size == 12
    assert {"crop", "flip", "colour"} <= set(made.config.data.augment)
    assert "in 2 folders, one per class; --task overrides" in "\n".join(made.lines())


@pytest.mark.parametrize(("labels", "grey"), [(("6", "9"), False), (("b", "d"), True)])
def test_digits_and_letters_are_not_mirrored(labels, grey, tmp_path):
    made = design({"data": {"train": [photos(tmp_path / "signs", labels=labels, grey=grey)]}})
    assert made.config.data.augment[0] == "crop"
    assert "flip" not in made.config.data.augment
    assert "no flips, because the labels are digits or letters" in "\n".join(made.lines())


@pytest.mark.parametrize(
    ("label", "side"),
    [
        *((label, True) for label in ("left", "turn_left", "Hand-Right", "turnLeft", "RightHand2", "RECHTS")),
        *((label, False) for label in ("bright", "leftover", "copyright", "LEFTOVER")),
    ],
)
def test_labels_that_name_a_side_are_not_mirrored(label, side, tmp_path):
    assert names_side(label) == side
    if label in ("turn_left", "bright"):
        made = design({"data": {"train": [photos(tmp_path / "signs", labels=(label, "stop"))]}})
        assert ("flip" in made.config.data.augment) == (not side)
        reason = (
            "labels name a side, such as “turn_left”"
            if side
            else "because no label names a side, a number or a letter"
        )
        assert reason in "\n".join(made.lines())


def test_grey_strokes_are_not_mirrored(tmp_path):
    draw = np.random.default_rng(0)
    for number in range(40):
        label = ("alpha", "beta")[number % 2]
        pixels = np.zeros((12, 12), np.uint8)
        pixels[draw.integers(2, 9), 2:9] = 255
        (tmp_path / "x" / label).mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(tmp_path / "x" / label / f"{number}.png")
    made = design({"data": {"train": [str(tmp_path / "x")]}})
    assert made.config.data.augment == ("crop",)
    assert "grey strokes on a plain background" in "\n".join(made.lines())


def test_one_class_is_refused(tmp_path):
    with pytest.raises(InputError, match="every image has the label 'day'"):
        design({"data": {"train": [photos(tmp_path / "p", labels=("day",))]}, "task": "image_classification"})


@pytest.mark.parametrize(
    ("model", "kind"),
    [({"encoder": "cnn"}, "cnn"), ({"encoder": {"kind": "hybrid"}}, "hybrid"), ({"stem": "small"}, "resnet")],
)
def test_an_encoder_on_its_own_is_that_of_a_classifier(model, kind, tmp_path):
    made = design({"data": {"train": [photos(tmp_path / "photos", size=48)]}, "model": model})
    check_parts(made.config)
    described = resolve(made.config.model)
    assert (described["kind"], described["encoder"]["kind"]) == ("encoder_only", kind)
    assert described["encoder"].get("stem", "small") == "small"


# Training ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("encoder", ["cnn", "resnet", "hybrid"])
def test_statistics_of_batches_resume_exactly_with_any_number_of_processes(encoder, tmp_path):
    """Running statistics are the only state of a model that a step does not compute from its gradients."""
    heads = {"heads": 2, "layers": 1} if encoder == "hybrid" else {}
    model = {"kind": "encoder_only", "encoder": {"kind": encoder, "size": 16, **heads}}
    config = configured(photos(tmp_path / "p"), model, accumulate=2, validate_every=4, save_seconds=1e6)
    tiny.train(config, tmp_path / "one")
    assert tiny.interrupted(config, tmp_path / "parts", "train:step", 5) > 0
    tiny.train(config, tmp_path / "parts")
    assert tiny.digest(tmp_path / "parts") == tiny.digest(tmp_path / "one")
    two = parse({**config.to_dict(), "threads": 2})
    tiny.train(two, tmp_path / "two")
    one, other = (seqwright.load(tmp_path / name).model.weights() for name in ("one", "two"))
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_equal_images_are_stored_once(tmp_path):
    folder = photos(tmp_path / "p", 40)
    for number in range(0, 40, 2):
        (Path(folder) / "day" / f"copy{number}.png").write_bytes(
            (Path(folder) / "day" / f"{number}.png").read_bytes()
        )
    tiny.train(configured(folder), tmp_path / "run")
    stores = [Store.open(tmp_path / "run" / "data" / part) for part in ("train", "valid")]
    kept = sum(len(store.column("pixels").offsets) - 1 for store in stores)
    assert kept < sum(map(len, stores))


def test_an_encoder_moves_into_another_model(tmp_path):
    folder = photos(tmp_path / "p")
    tiny.train(configured(folder), tmp_path / "first")
    start = {**SMALL, "encoder": {"start": str(tmp_path / "first")}}
    still = {"kind": "adamw", "rate": 1e-12}
    other = photos(tmp_path / "q", labels=("a", "b", "c"))
    tiny.train(configured(other, start, steps=1, optimizer=still, average=0.0), tmp_path / "second")
    first, second = (seqwright.load(tmp_path / name).model.weights() for name in ("first", "second"))
    names = [name for name in first if name.startswith("encoder.") and "running" not in name]
    for name in names:
        torch.testing.assert_close(first[name], second[name], atol=1e-6, rtol=0)
    assert first["head.linear.weight"].shape != second["head.linear.weight"].shape


def test_mixed_labels_have_the_shares_of_the_images(tmp_path):
    tiny.train(configured(photos(tmp_path / "p")), tmp_path / "run")
    predictor, store = seqwright.load(tmp_path / "run"), Store.open(tmp_path / "run" / "data" / "train")
    batch = predictor.task.batch(store, np.arange(20), seed=1, epoch=0)
    assert batch.expected.shape == (20, 2)
    torch.testing.assert_close(batch.expected.sum(1), torch.ones(20))
    plain = predictor.task.batch(store, np.arange(20))
    assert plain.expected.dtype == torch.int64
    assert (batch.expected.argmax(1) == plain.expected).float().mean() > 0.9


# Use -----------------------------------------------------------------------------------------------


def test_inputs_of_every_kind_give_the_same_label(trained):
    run, folder = trained
    model, path = seqwright.load(run), Path(folder) / "night" / "1.png"
    pixels = np.asarray(Image.open(path))
    stream = io.BytesIO()
    Image.open(path).save(stream, "WEBP", lossless=True)
    same = [str(path), path, path.read_bytes(), stream.getvalue(), Image.open(path), pixels, pixels / 255]
    same += [torch.tensor(pixels), to_uri(pixels), {"image": path.read_bytes()}]
    found = [model.predict(given)[0] for given in same]
    assert {each.label for each in found} == {"night"}
    assert len({round(each.probability, 5) for each in found}) == 1
    assert model(str(path)) == model(pixels) == "night"
    assert model([str(path), pixels]) == ["night", "night"]
    assert model(np.stack([pixels, pixels])) == ["night", "night"]
    assert model(torch.tensor(np.stack([pixels, pixels]))) == ["night", "night"]
    assert len(model(folder)) == 80


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("none.png", "none.png does not exist"),
        (b"junk", "is not an image"),
        (7, "7 is not an image; give a path, the bytes of a file, a PIL image or an array"),
        (np.zeros((3, 3, 7)), "3 × 3 × 7 is not an image"),
        (["data:image/png;base64,xx"], "data URI"),
        (torch.zeros(3, 12, 12), "3 × 12 × 12 is not an image"),  # one image, not three grey ones
    ],
)
def test_bad_inputs_are_named(given, message, trained):
    with pytest.raises(InputError, match=message):
        seqwright.load(trained[0]).predict(given)


def test_evaluation_has_top_5_and_finds_labels_that_are_new(trained, tmp_path):
    run, folder = trained
    model = seqwright.load(run)
    found = model.evaluate(folder)
    assert list(found.metrics)[:2] == ["accuracy", "top_5"]
    assert found.metrics["accuracy"] > 90
    assert found.metrics["top_5"] == 100
    with pytest.raises(InputError, match=r"^the label 'dusk' does not .* labels are day, night;"):
        model.score([(str(Path(folder) / "day" / "0.png"), "dusk")])
    assert model.score([(str(Path(folder) / "day" / "0.png"), "day")])[0] > -1


def test_the_worst_images_are_named_by_the_end_of_their_paths(trained, tmp_path, capsys):
    """Labels are swapped, so every image is wrong; the folder is too long for a column."""
    model, _ = trained
    name = "a-folder-with-a-name-that-is-longer-than-the-column"
    folder = photos(tmp_path / name, 6, ("night", "day"))
    assert cli.main(["evaluate", str(model), folder]) == 0
    lines = capsys.readouterr().out.splitlines()
    start = next(place for place, line in enumerate(lines) if line.startswith("most wrong"))
    assert len({line.split()[0] for line in lines[start + 1 : start + 4]}) == 3
    assert lines[start + 1].split()[0].endswith(".png")
    (speed,) = (line for line in lines if "items/s" in line)
    assert "tokens/s" not in speed


def test_the_report_counts_the_speed_of_training_in_images(trained, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(trained[0], run)
    step = {"step": 30, "loss": 0.5, "rate": 0.01, "tokens_per_second": 700.0, "seconds": 1.0}
    logged = (run / "metrics.jsonl").read_text(encoding="utf-8")
    (run / "metrics.jsonl").write_text(f"{json.dumps(step)}\n{logged}", encoding="utf-8")
    page = write_report(run).read_text(encoding="utf-8")
    assert "Images per second, time of validations included." in page
    assert "images/s" in page
    assert "tokens/s" not in page


def test_images_of_the_training_are_found_by_their_content(trained, tmp_path):
    run, folder = trained
    model = seqwright.load(run)
    assert any("in the training split" in finding for finding in model.evaluate(folder).findings)
    new = np.random.default_rng(9)
    given = [(picture(label, new), label) for label in ("day", "night") * 20]
    assert not any("split" in finding for finding in model.evaluate(given).findings)


def test_top_5_counts_five_labels():
    metric, labels = METRICS.build("top_5"), [str(n) for n in range(8)]

    class Answer:
        probabilities = dict.fromkeys(labels, 0.1)

    seen = metric.seen(Answer())
    assert metric.measured([seen, seen], [["4"], ["5"]]).value() == 50


def test_the_commands_take_images_folders_and_lists(trained, tmp_path, capsys):
    run, folder = trained
    images = [str(Path(folder) / "day" / "0.png"), str(Path(folder) / "night" / "1.png")]
    assert cli.main(["predict", str(run), *images]) == 0
    assert capsys.readouterr().out == "day\nnight\n"
    (tmp_path / "list.txt").write_text("".join(f"{each}\n" for each in images))
    assert cli.main(["predict", str(run), str(tmp_path / "list.txt"), "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(row["source"], row["label"]) for row in rows] == [(images[0], "day"), (images[1], "night")]
    out = tmp_path / "labels.txt"
    assert cli.main(["predict", str(run), str(Path(folder) / "day"), "--output", str(out)]) == 0
    rows = [line.split("\t") for line in out.read_text().splitlines()]  # the order is not the user's own
    archive = shutil.make_archive(str(tmp_path / "all"), "zip", Path(folder).parent, Path(folder).name)
    assert cli.main(["predict", str(run), archive]) == 0
    assert capsys.readouterr().out.startswith(f"{archive}/photos/day/0.png\tday\n")
    assert [label for _, label in rows] == ["day"] * 40
    assert sorted(path for path, _ in rows) == sorted(map(str, (Path(folder) / "day").iterdir()))
    capsys.readouterr()
    assert cli.main(["predict", str(run), images[0], "gone.png"]) == 2
    assert "gone.png does not exist" in capsys.readouterr().err
    assert cli.main(["evaluate", str(run), folder, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["metrics"]["accuracy"] > 90
    assert cli.main(["verify", str(run)]) == 0
    assert cli.main(["doctor", folder]) == 0


def test_images_of_a_folder_that_cannot_be_used_are_named(trained, tmp_path, capsys, caplog):
    folder = Path(photos(tmp_path / "new", 8)) / "day"
    (folder / "2.png").write_bytes(b"junk")
    assert cli.main(["predict", str(trained[0]), str(folder), "--json"]) == 0
    lines = capsys.readouterr().out.splitlines()
    sources = [Path(json.loads(line)["source"]).name for line in lines]
    assert sources == ["0.png", "4.png", "6.png"]
    assert "1 image of" in caplog.text
    assert "2.png is not an image, or is damaged" in caplog.text
    assert cli.main(["predict", str(trained[0]), str(folder / "2.png")]) == 2  # named by itself


@pytest.mark.parametrize("piped", [False, True])
def test_images_of_a_list_that_cannot_be_used_have_empty_outputs(
    piped, trained, tmp_path, capsys, monkeypatch
):
    run, folder = trained
    (tmp_path / "junk.png").write_bytes(b"junk")
    good = [str(Path(folder) / name) for name in ("day/0.png", "night/1.png")]
    listed = tmp_path / "list.txt"
    given = [str(listed)]
    if piped:
        given = []
        monkeypatch.setattr("sys.stdin", listed.open("w+"))
    listed.write_text(f"{good[0]}\ngone.png\n{good[1]}\n{tmp_path / 'junk.png'}\n")
    assert cli.main(["predict", str(run), *given]) == 0
    found = capsys.readouterr()
    assert found.out == "day\n\nnight\n\n"
    name = "standard input" if piped else str(listed)
    faults = f"gone.png does not exist; {tmp_path / 'junk.png'} is not an image, or is damaged"
    assert f"2 lines with an empty output: {faults} ({name}:2, {name}:4)" in found.err
    if piped:
        return
    assert cli.main(["predict", str(run), str(listed), "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["output"] for row in rows] == ["day", "", "night", ""]
    assert rows[1] == {"source": "gone.png", "fault": "gone.png does not exist", "output": ""}
    listed.write_text("gone.png\n")
    assert cli.main(["predict", str(run), str(listed)]) == 2
    assert "list.txt has no input that can be used" in capsys.readouterr().err


def test_a_run_verifies_without_its_images(tmp_path, capsys):
    folder = photos(tmp_path / "p", 40)
    seqwright.train(folder, out=tmp_path / "run", quiet=True, model=SMALL, training=FAST, threads=1)
    shutil.rmtree(folder)
    assert cli.main(["verify", str(tmp_path / "run")]) == 0
    assert "4 of 4 outputs unchanged" in capsys.readouterr().out


def test_the_report_has_a_contact_sheet_and_labels_stay_text(tmp_path):
    folder = photos(tmp_path / "p", 60, labels=("<script>alert(1)", "day"))
    training = {**FAST, "steps": 2}
    seqwright.train(folder, out=tmp_path / "run", quiet=True, model=SMALL, training=training, threads=1)
    sheet = json.loads((tmp_path / "run" / "evaluation.json").read_text())["sheet"]
    assert {each["kind"] for each in sheet} >= {"confused"}
    assert all(each["image"].startswith("data:image/jpeg;base64,") for each in sheet)
    page = (tmp_path / "run" / "report.html").read_text()
    assert page.count("<img") == len(sheet)
    assert "<script" not in page
    assert "&lt;script&gt;alert(1)" in page


def test_the_commands_of_report_and_card_name_a_file(trained):
    """The images of stored examples are data URIs of a few thousand characters."""
    run = trained[0]
    page, card = ((run / name).read_text(encoding="utf-8") for name in ("report.html", "README.md"))
    assert "seqwright predict run photo.jpg folder" in page
    assert "seqwright look run photo.jpg -o look.html" in page
    assert 'model.predict("photo.jpg")[0].text' in card
    assert "base64" not in card
    assert "Every image gets one of 2 labels" in card


def test_a_sheet_that_holds_no_image_draws_none():
    hostile = {"kind": "worst", "image": "https://example.org/x.png", "expected": "a", "output": "b"}
    assert "example.org" not in str(contact_sheet([Document(hostile)]))
    assert contact_sheet([]) is None


def test_faults_are_reported_before_the_training(tmp_path):
    folder = photos(tmp_path / "p", 40)
    (Path(folder) / "day" / "0.png").write_bytes(b"junk")
    said = "\n".join(design({"data": {"train": [folder]}}).lines())
    assert "the image is damaged, or is not an image" in said
    assert f"{folder}/day/0.png" in said
    assert "39 images" in said


def test_a_damaged_description_of_the_images_is_named(trained, tmp_path):
    run, _ = trained
    config = parse(seqwright.runs.folder.Run.open(run).config)
    (tmp_path / "labels.json").write_bytes((run / "labels.json").read_bytes())
    (tmp_path / "images.json").write_text('{"format": 1, "size": -3, "channels": 3}')
    with pytest.raises(ModelError, match=r"images\.json is damaged"):
        ImageClassification.load(tmp_path, config)


@pytest.mark.parametrize("preset", ["resnet20", "tiny-vit", "hybrid-tiny", "dosovitskiy2021-tiny"])
def test_presets_read_images_of_any_size(preset):
    for size, channels in ((28, 1), (50, 3)):
        model = build_model(preset, channels=channels, image_size=size, classes=5).eval()
        with torch.no_grad():
            assert model.predictions(model.encoder.sample([1, 1], [0, 1])).shape == (2, 5)
