"""Families of models at one size, and one table of them."""

from __future__ import annotations

import json
import signal
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.flop_counter import FlopCounterMode

from seqwright import cli
from seqwright.config.presets import KIND, PRESETS
from seqwright.data.batch import HeadBatch, Images, collate
from seqwright.data.store import Ragged
from seqwright.errors import ConfigError
from seqwright.models.building import build_model, resolve
from seqwright.models.building.scaling import (
    counted_flops,
    described,
    parameters_of,
    scale_to_size,
    training_flops,
)
from seqwright.pipeline import design
from seqwright.pipeline.families import families, tokens_read, train_families
from seqwright.training.interrupt import Interrupted

IMAGES = ("cnn", "resnet", "patches", "hybrid")  # encoders of captioners, which have no source vocabulary
PAPERS = [
    name
    for name, preset in PRESETS.items()
    if preset.source != "ours" and preset.kind == KIND and preset.model["encoder"]["kind"] not in IMAGES
]
SMALL = [
    "model.layers=1",
    "model.size=16",
    "model.hidden=32",
    "model.heads=2",
    "training.decode=2",
    "threads=1",
]


@pytest.mark.parametrize(
    ("name", "sizes"),
    [*((name, (40, 45)) for name in PAPERS), ("sutskever2014", (8000, 8000)), ("shaw2018", (8000, 8000))],
)
def test_a_paper_comes_near_the_size_of_the_recipe_and_stays_itself(name, sizes):
    wanted = parameters_of({"preset": "tiny", "share": sizes[0] == sizes[1]}, sizes)
    model = scale_to_size(described(name, {}, joint=sizes[0] == sizes[1]), wanted, sizes, {})
    assert parameters_of(model, sizes) == pytest.approx(wanted, rel=0.25)
    paper = resolve(name)
    for part in ("encoder", "decoder"):
        widths = {"size", "hidden", "embedding_size", "readout_size"}
        sizes = {"layers", *widths}
        assert {k: v for k, v in model[part].items() if k not in sizes} == {
            k: v for k, v in paper[part].items() if k not in sizes
        }
        assert 1 <= model[part].get("layers", 1) <= paper[part].get("layers", 1)
        for width in widths & paper[part].keys():
            assert model[part][width] / model["decoder"]["size"] == pytest.approx(
                paper[part][width] / paper["decoder"]["size"], rel=0.5
            )


def test_depth_shrinks_more_slowly_than_width():
    shallow, deep = (
        scale_to_size(described("luong2015-general", {}, joint=False), wanted, (100, 100), {})["decoder"]
        for wanted in (3 * 10**5, 3 * 10**6)
    )
    assert 1 == shallow["layers"] < deep["layers"] < 4
    assert deep["layers"] / 4 > deep["size"] / 1000


def test_a_width_that_was_asked_for_stays():
    model = scale_to_size(
        described("vaswani2017-base", {"size": 32}, joint=False), 10**5, (20, 20), {"size": 32}
    )
    assert model["encoder"]["size"] == model["decoder"]["size"] == 32
    assert model["encoder"]["hidden"] < 2048


@pytest.mark.parametrize("name", ["tiny", "shaw2018", "bahdanau2015"])
def test_flops_are_about_those_that_are_counted(name):
    """torch counts every product but those inside an LSTM; what we leave out is little at these lengths."""
    small = {"layers": 2, "size": 64, "hidden": 128, "heads": 4, "embedding_size": 64, "readout_size": 64}
    model = build_model(described(name, small, joint=False), source_vocabulary=60, target_vocabulary=300)
    rows = Ragged.of([list(range(4, 14))] * 8)
    batch = collate(rows, rows, np.arange(8))
    with FlopCounterMode(display=False) as counter:
        loss = model.train().loss(batch)
        (loss.total / loss.count).backward()
    assert training_flops(model, 88, 88) == pytest.approx(counter.get_total_flops(), rel=0.25)


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    words = [f"{a}{b}{c}" for a in "abcdef" for b in "ghijkl" for c in "mnop"]
    path = tmp_path_factory.mktemp("families") / "pairs.tsv"
    path.write_text("".join(f"{word}\t{' '.join(reversed(word))}\n" for word in words), encoding="utf-8")
    return path


def designed(pairs, *changes: str):
    return design({"data": {"train": [str(pairs)]}, "training": {"steps": 3}}, [*SMALL, *changes])


def test_the_tokens_read_are_those_of_the_batches(pairs, tmp_path):
    """Against a walk over the batches that the training took, over the end of an epoch."""
    base = designed(pairs, "training.tokens=100")
    (family,) = families(["tiny"], base, tmp_path)
    table = train_families([family], tmp_path)
    from seqwright.data.plan import Batching, Cursor, Plan
    from seqwright.data.store import Store
    from seqwright.tasks.text_to_text import TextToText
    from seqwright.training.trainer import Progress

    store = Store.open(tmp_path / "tiny" / "data" / "train")
    lengths = TextToText(None, None).lengths(store)
    walk = Plan(lengths, Batching(tokens=100), base.config.seed).walk(Cursor())
    source = target = 0
    for step in range(1, 40):
        numbers, after = next(walk)
        source += int(lengths.context[numbers].sum()) + len(numbers)
        target += int(lengths.counted[numbers].sum()) + len(numbers)
        read = tokens_read(family, tmp_path / "tiny", Progress(step=step, cursor=after))
        assert read == (source, target)
        if step == 3:
            assert table.results[0].read == target
    assert after.epoch > 0


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """Bright above or below: 60 images in two folders."""
    folder, draw = tmp_path_factory.mktemp("photos"), np.random.default_rng(0)
    for number in range(60):
        pixels = draw.integers(0, 90, (8, 8, 3), dtype=np.uint8)
        pixels[slice(0, 4) if number % 2 else slice(4, 8)] += 150
        label = folder / ("day", "night")[number % 2]
        label.mkdir(exist_ok=True)
        Image.fromarray(pixels).save(label / f"{number}.png")
    return folder


def test_image_classifiers_are_compared_with_their_own_recipes_and_drawn(photos, tmp_path, capsys):
    out = tmp_path / "out"
    names = ["resnet20", "hybrid-tiny", "tiny-vit"]
    command = ["compare", "--train", str(photos), "--families", ",".join(names), "--out", str(out)]
    command += ["--steps", "6", "model.layers=1", "model.encoder.size=16", "threads=1"]
    assert cli.main([*command, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [row["family"] for row in document["families"]] == names
    rates = set()
    for row in document["families"]:
        config = json.loads((out / row["family"] / "config.json").read_text())
        rates.add(config["training"]["optimizer"]["rate"])
        assert row["images"] == 6 * 48  # the training split, in one batch
        assert row["images_per_second"] > 0
        assert row["flops"] > 0
    assert len(rates) == 3
    picture = ElementTree.parse(out / "families.svg")
    words = [text.text for text in picture.iter("{http://www.w3.org/2000/svg}tspan")]
    assert all(words.count(name) == 2 for name in names)
    assert cli.main(command) == 0
    text = capsys.readouterr().out
    assert "images/s" in text
    assert f"figure: {out / 'families.svg'}" in text


def test_taggers_of_a_field_are_compared(tmp_path, capsys):
    words = [("old", "JJ"), ("men", "NNS"), ("row", "VBP")]
    sentences = []
    for number in range(49):
        rows = [(f"{word}{number % 7 if tag == 'JJ' else number // 7}", tag) for word, tag in words]
        lines = [f"{i}\t{word}\t{word}\tX\t{tag}\t_\t0\tdep\t_\t_\n" for i, (word, tag) in enumerate(rows, 1)]
        sentences.append("".join(lines))
    (tmp_path / "en.conllu").write_text("\n".join(sentences))
    command = ["compare", "--train", str(tmp_path / "en.conllu"), "--families", "tiny-tagger,lstm-tagger"]
    flags = ["--task", "token_classification", "--field", "xpos", "--out", str(tmp_path / "out")]
    small = ["model.encoder.size=16", "threads=1", "--steps", "3", "--json"]
    assert cli.main([*command, *flags, *small]) == 0
    rows = json.loads(capsys.readouterr().out)["families"]
    assert [row["family"] for row in rows] == ["tiny-tagger", "lstm-tagger"]
    for row in rows:
        config = json.loads((tmp_path / "out" / row["family"] / "config.json").read_text())
        assert config["data"]["field"] == "xpos"


def test_counted_flops_of_a_residual_network_are_those_of_its_convolutions():
    """Against a sum over the layers: 2 per product, forward and twice backward, but not by the pixels."""
    model = build_model({"preset": "resnet20"}, channels=3, image_size=32, classes=10)
    batch = HeadBatch(Images(torch.zeros(2, 32, 32, 3, dtype=torch.uint8)), torch.zeros(2).long(), None, 2)
    products = 0

    def seen(module, inputs, output):
        nonlocal products
        first = inputs[0].shape[1] == 3
        per_output = module.weight[0].numel()
        products += (2 if first else 3) * output.numel() * per_output

    for module in model.modules():
        if isinstance(module, torch.nn.Conv2d | torch.nn.Linear):
            module.register_forward_hook(seen)
    assert counted_flops(model, batch) == pytest.approx(2 * products, rel=1e-3)


def test_counted_flops_of_a_vision_transformer_include_its_attention():
    """Against 6 · weights of the matrices · places, and 12 · places² · size of each layer for QKᵀ and AV."""
    model = build_model({"preset": "tiny-vit"}, channels=3, image_size=32, classes=10)
    batch = HeadBatch(Images(torch.zeros(2, 32, 32, 3, dtype=torch.uint8)), torch.zeros(2).long(), None, 2)
    places, size, layers = 64, 128, 4
    layer = 4 * size * size + 2 * size * 256
    inputs = 48 * size * 2 / 3  # no gradient by the pixels
    wanted = 6 * (layers * layer + inputs) * places + layers * 12 * places**2 * size
    assert counted_flops(model, batch) == pytest.approx(2 * wanted, rel=0.01)


def test_families_of_two_kinds_are_refused(photos, pairs, tmp_path):
    with pytest.raises(ConfigError, match="tiny is of kind encoder_decoder and resnet20 is of kind"):
        families(["tiny", "resnet20"], designed(pairs), tmp_path)
    with pytest.raises(ConfigError, match="resnet20 is a model of kind encoder_only; text_to_text needs"):
        families(["resnet20"], design({"data": {"train": [str(pairs)]}, "training": {"steps": 3}}), tmp_path)
    with pytest.raises(ConfigError, match="tiny-lm is a model of kind decoder_only"):
        families(["tiny-lm"], designed(pairs), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_wrong_names_and_options_are_said_before_anything_is_trained(pairs, tmp_path):
    with pytest.raises(ConfigError, match="did you mean 'bahdanau2015'"):
        families(["bahdanau2014"], designed(pairs), tmp_path)
    with pytest.raises(ConfigError, match="leave it out"):
        families(["tiny"], designed(pairs, "model.preset=small"), tmp_path)
    with pytest.raises(ConfigError, match="unknown option of the models 'cell'"):
        families(["tiny"], designed(pairs, "model.cell=gru"), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_paper_size_keeps_the_paper(pairs, tmp_path):
    base = design({"data": {"train": [str(pairs)]}, "training": {"steps": 3}})
    (family,) = families(["bahdanau2015"], base, tmp_path, paper_size=True)
    assert resolve(family.design.config.model) == resolve("bahdanau2015")


def test_presets_of_ours_have_the_size_of_a_laptop_already(pairs, tmp_path):
    base = design({"data": {"train": [str(pairs)]}, "training": {"steps": 3}})
    for family in families(["tiny-rnn", "tiny"], base, tmp_path):
        own, preset = resolve(family.design.config.model), resolve(family.name)
        assert own["decoder"]["size"] == preset["decoder"]["size"]


def test_an_interrupted_comparison_says_how_to_go_on(pairs, tmp_path, capsys, monkeypatch):
    def stopped(*arguments, **options):
        raise Interrupted(signal.SIGTERM)

    monkeypatch.setattr("seqwright.training.run.train", stopped)
    command = ["compare", "--train", str(pairs), "--families", "tiny", "--out", str(tmp_path / "out"), *SMALL]
    assert cli.main(command) == 143
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "stopped by SIGTERM; run the same command again to resume" in captured.err


def test_two_families_end_to_end_and_again(pairs, tmp_path, capsys):
    out = tmp_path / "out"
    command = ["compare", "--train", str(pairs), "--families", "bahdanau2015,tiny", "--out", str(out)]
    command += ["--steps", "3", "--json", *SMALL]
    assert cli.main(command) == 0
    document = json.loads(capsys.readouterr().out)
    assert [row["family"] for row in document["families"]] == ["bahdanau2015", "tiny"]
    for row in document["families"]:
        assert row["steps"] == 3
        assert row["flops"] > 0
        assert row["target_tokens_per_second"] > 0
        low, high = row["intervals"]["word_error_rate"]
        assert low <= row["metrics"]["word_error_rate"] <= high
    tokenizers = {(out / name / "tokenizer.target.json").read_bytes() for name in ("bahdanau2015", "tiny")}
    assert len(tokenizers) == 1
    kept = [*out.glob("*/model.safetensors"), *out.glob("*/evaluation.json")]
    times = [path.stat().st_mtime_ns for path in kept]
    assert len(kept) == 4
    assert cli.main([part for part in command if part != "--json"]) == 0
    assert [path.stat().st_mtime_ns for path in kept] == times
    text = capsys.readouterr().out
    assert "bahdanau2015: scaled to the size of tiny: encoder layers 1, size 16" in text
    assert max(map(len, text.splitlines())) <= 100 + len(str(pairs))  # the name of a file is not cut
