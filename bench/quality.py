"""Quality of the default settings: named experiments, compared with published figures.

python -m bench.quality DATA [NAME ...]   # runs them and appends to bench/results/quality.jsonl
python -m bench.quality --table           # writes the table of docs/benchmarks.md from it

--keep FOLDER keeps the runs, each under its name and seed, and resumes those that were interrupted.

DATA is a folder with multi30k/, cmudict/, sigmorphon2021/, inflection/, tagging/, captions/, images/, trec/,
imdb/ and tinyshakespeare/; captions-flickr8k-pretrained also needs cifar10/, the files of the binary version.
A training receives only files, time and seed: the recipe chooses everything else. Captioners of photographs
also receive their preset, because they are compared with each other, and MNIST receives tiny-vit.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import seqwright
from bench.tables import markdown, put
from seqwright.config import DataConfig
from seqwright.config.presets import PRESETS
from seqwright.data.read_report import ReadReport
from seqwright.data.readers.labelled import open_labelled

E = TypeVar("E")
HERE = Path(__file__).parent
RESULTS = HERE / "results" / "quality.jsonl"
PAGE = HERE.parent / "docs" / "benchmarks.md"

KIM = "CNN of Kim 2014, harvardnlp/sent-conv-torch"
WU = "Transformer-Tiny, Wu et al. 2021, README of their code"
YOLCHUYEVA = "Transformer 4×4, Yolchuyeva et al. 2019"
NANO_GPT = "1.88 (nanoGPT, CPU setting), 1.47 (its GPU setting)"
UDPIPE = "UDPipe 1.2 on UD 2.3, gold tokens, README of its models"
WNUT = "systems of the shared task, with pretrained embeddings or gazetteers"
XU = "Xu et al. 2015, soft attention, encoder pretrained on ImageNet"
HIGHER = ("bleu", "bleu_4", "exact_match", "accuracy", "entity_f1")  # metrics for which more is better
PRETRAINED = 64  # pixels of the images that an encoder is trained on before
SINGLE = "single fairseq Transformer (juletx/writing-systems)"


@dataclass(frozen=True)
class Experiment:
    """One training and one test. `aim` is the target score; `judged` are options of the evaluation.

    linear: logistic regression on words and pairs of words (scikit-learn) is trained on the same files.
    images: the archive of the images that the files name. preset: of the model, where it is not chosen.
    pretrained: labelled images, on which a classifier with the encoder of the preset is trained first.
    share: the first share of the text of the only training file is for training, the rest for validation and
    for the score.
    """

    title: str
    train: tuple[str, ...]
    valid: tuple[str, ...]
    test: tuple[str, ...]
    minutes: float
    metric: str
    published: str
    aim: float | None = None
    judged: tuple[str, ...] = ()
    linear: bool = False
    images: str | None = None
    preset: str | None = None
    pretrained: str | None = None
    share: float | None = None


def _labels(folder: str, ending: str, *rest: Any) -> Experiment:
    """Describe texts with labels; a tenth of the training texts is for validation."""
    title, minutes, published, aim = rest
    files = ((f"{folder}/train.{ending}",), (), (f"{folder}/test.{ending}",))
    return Experiment(title, *files, minutes, "accuracy", published, aim, linear=True)


def _characters(minutes: float, aim: float) -> Experiment:
    """Describe a language model of TinyShakespeare, judged by the last tenth as nanoGPT is."""
    title = "TinyShakespeare, characters, the last tenth (also the validation part)"
    files = (("tinyshakespeare/input.txt",), (), ())
    return Experiment(title, *files, minutes, "nats_per_character", NANO_GPT, aim, share=0.9)


def _multi30k(minutes: float, aim: float | None, title: str) -> Experiment:
    def sides(part: str) -> tuple[str, str]:
        return f"multi30k/lc.norm.tok/{part}.en", f"multi30k/lc.norm.tok/{part}.de"

    return Experiment(
        f"Multi30k En→De, {title}",
        sides("train"),
        sides("val"),
        sides("test_2016_flickr"),
        minutes,
        "bleu",
        f"41.02 ({WU})",
        aim,
        ("--bleu-tokenize", "none"),
    )


def _pairs(folder: str, names: tuple[str, str, str], *rest: Any) -> Experiment:
    train, valid, test = (f"{folder}/{name}.tsv" for name in names)
    title, minutes, metric, published, *aim = rest
    return Experiment(title, (train,), (valid,), (test,), minutes, metric, published, *aim)


def _captions(folder: str, test: str, *rest: Any, **options: Any) -> Experiment:
    """Describe images with captions; the score of one fixed caption is part of the record."""
    title, minutes, metric, published, aim = rest
    files = ((f"{folder}/train.tsv",), (f"{folder}/valid.tsv",), (f"{folder}/{test}.tsv",))
    images = f"{folder}/images.zip"
    return Experiment(title, *files, minutes, metric, published, aim, images=images, **options)


def _photographs(preset: str, encoder: str, pretrained: str | None = None) -> Experiment:
    """Describe Flickr8k for one of the captioners."""
    title = f"Flickr8k at 128 × 128 pixels, {preset}, {encoder}"
    rest = (title, 20, "bleu_4", f"19.5 ({XU})", 14.0)
    return _captions("captions/flickr8k", "test", *rest, preset=preset, pretrained=pretrained)


_OFFICIAL = {
    "arm_e": (8.9, 7.0),
    "dut": (16.9, 14.7),
    "fre": (10.2, 8.5),
    "hun": (1.9, 1.8),
    "kor": (30.2, 16.3),
}
_CMU = ("cmudict", ("train", "valid", "test"))
_CAPTIONERS = ("vinyals2015", "xu2015", "cnn-transformer", "vit-transformer")

EXPERIMENTS: dict[str, Experiment] = {
    "multi30k-30": _multi30k(30, 41.0, "lower-cased, tokenised"),
    "multi30k-120": _multi30k(120, 42.0, "lower-cased, tokenised"),
    "multi30k-cased-30": _pairs(
        "multi30k",
        ("train.en-de", "val.en-de", "test_2016_flickr.en-de"),
        "Multi30k En→De, cased, detokenised",
        30,
        "bleu",
        "–",
    ),
    "cmudict-10": _pairs(*_CMU, "CMUdict 0.7b, G2P", 10, "word_error_rate", f"22.1 ({YOLCHUYEVA})", 28.0),
    "cmudict-60": _pairs(*_CMU, "CMUdict 0.7b, G2P", 60, "word_error_rate", f"22.1 ({YOLCHUYEVA})", 23.5),
    **{
        f"sigmorphon-{code}": _pairs(
            "sigmorphon2021",
            (f"{code}_train", f"{code}_dev", f"{code}_test"),
            f"SIGMORPHON 2021 medium, G2P, {code}",
            10,
            "word_error_rate",
            f"{single} ({SINGLE}), {ten} (official ensemble of ten)",
            single,
        )
        for code, (single, ten) in _OFFICIAL.items()
    },
    **{
        f"inflection-{language}": _pairs(
            "inflection",
            (f"{language}.train", f"{language}.valid", f"{language}.test"),
            f"CoNLL-SIGMORPHON 2017 high, inflection, {language}",
            15,
            "exact_match",
            "–",
            aim,
        )
        for language, aim in (("german", 91.0), ("finnish", 94.0))
    },
    "tagging-ewt": Experiment(
        "UD English EWT, universal parts of speech",
        ("tagging/en_ewt/en_ewt-ud-train.conllu.gz",),
        ("tagging/en_ewt/en_ewt-ud-dev.conllu.gz",),
        ("tagging/en_ewt/en_ewt-ud-test.conllu.gz",),
        5,
        "accuracy",
        f"94.4 ({UDPIPE})",
        94.0,
    ),
    "tagging-wnut17": Experiment(
        "WNUT 2017, emerging entities",
        ("tagging/wnut17/train.conll",),
        ("tagging/wnut17/valid.conll",),
        ("tagging/wnut17/test.conll",),
        5,
        "entity_f1",
        f"26.3 to 41.9 ({WNUT})",
    ),
    "captions-emoji": _captions(
        "captions/emoji",
        "test-compositional",
        "emoji names, known parts in new combinations",
        10,
        "exact_match",
        "–",
        80.0,
    ),
    **{f"captions-flickr8k-{preset}": _photographs(preset, "encoder from scratch") for preset in _CAPTIONERS},
    "captions-flickr8k-pretrained": _photographs(
        "xu2015", "encoder trained on CIFAR-10 for 15 minutes before", "cifar10"
    ),
    "mnist": Experiment(
        "MNIST, digits, tiny-vit",
        ("images/mnist",),
        (),
        (),
        3,
        "accuracy",
        "92 (linear), 98.4 (two-layer perceptron), 99.2 (small CNN), from memory",
        98.0,
        preset="tiny-vit",
    ),
    "shakespeare-3": _characters(3, 1.57),
    "shakespeare-15": _characters(15, 1.50),
    "trec": _labels("trec", "tsv", "TREC-6, question types", 3, f"88.2 ({KIM}, random embeddings)", 88.0),
    "imdb": _labels("imdb", "tsv.gz", "IMDB, sentiment of reviews", 10, "87.5 (CNN, bentrevett)", 88.0),
}


def run(experiment: Experiment, data: Path, out: Path, *, seed: int, minutes: float) -> dict[str, Any]:
    """Train into `out` with the defaults and evaluate on the test split, each in its own process."""
    if experiment.share is not None:
        experiment = cut(experiment, data, out.with_name(f"{out.name}-text"))
    held = [f"--valid={data / name}" for name in experiment.valid]
    held += (
        [] if held else [f"--test={data / name}" for name in experiment.test]
    )  # otherwise a share of training
    end = [f"--minutes={minutes}", f"--seed={seed}", f"--out={out}"]
    end += [] if experiment.images is None else [f"data.images={data / experiment.images}"]
    end += [] if experiment.preset is None else [f"model.preset={experiment.preset}"]
    if experiment.pretrained is not None:
        encoder = trained_encoder(experiment, data, out.with_name(f"{out.name}-encoder"), seed, minutes)
        end.append(f"model.encoder.start={encoder}")
    printed_by("train", *(str(data / name) for name in experiment.train), *held, *end)
    tests = [str(data / name) for name in experiment.test]
    judged = json.loads(printed_by("evaluate", str(out), *tests, "--json", *experiment.judged))
    peer = {"linear": linear(experiment, data)} if experiment.linear else {}
    return {
        "metrics": judged["metrics"],
        "baseline": judged["baseline"],
        **peer,
        "intervals": judged["intervals"],
        "signature": judged["signatures"][experiment.metric],
        "minutes": minutes,
        **training_facts(out),
        "seed": seed,
    }


def training_facts(out: Path) -> dict[str, Any]:
    """Return steps, speed and parameters of a training, and the peak memory of any process so far."""
    records = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    config = json.loads((out / "config.json").read_text())
    speeds = [record["tokens_per_second"] for record in records if "tokens_per_second" in record]
    return {
        "trained_minutes": round(records[-1]["seconds"] / 60, 1),
        "steps": max(record["step"] for record in records),
        "tokens_per_second": sorted(speeds)[len(speeds) // 2],
        "parameters": sum(p.numel() for p in seqwright.load(out).model.parameters()),
        "peak_memory_mb": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024,
        "model": {key: value for key, value in config["model"].items() if key != "preset_model"},
        "version": seqwright.__version__,
    }


def trained_encoder(experiment: Experiment, data: Path, out: Path, seed: int, minutes: float) -> Path:
    """Train a classifier with the encoder of the preset on other images into `out`.

    It has three quarters of the minutes, and reads the images at PRETRAINED pixels: the preset reduces an
    image to a quarter before its residual blocks.
    """
    encoder = PRESETS[str(experiment.preset)].model["encoder"]
    model = ["model.kind=encoder_only", "model.head.kind=classes"]
    model += [f"model.encoder.{key}={value}" for key, value in encoder.items()]
    end = [f"--minutes={0.75 * minutes:g}", f"--seed={seed}", f"--out={out}"]
    printed_by("train", str(data / str(experiment.pretrained)), f"data.image_size={PRETRAINED}", *model, *end)
    return out


def cut(experiment: Experiment, data: Path, folder: Path) -> Experiment:
    """Write both parts of a text to `folder` and return the experiment with their paths."""
    text = (data / experiment.train[0]).read_text(encoding="utf-8")
    border = int(len(text) * (experiment.share or 1.0))
    train, rest = folder / "train.txt", folder / "rest.txt"
    folder.mkdir(parents=True, exist_ok=True)
    train.write_text(text[:border], encoding="utf-8")
    rest.write_text(text[border:], encoding="utf-8")
    return replace(experiment, train=(str(train),), valid=(str(rest),), test=(str(rest),))


def append(results: Path, record: dict[str, Any]) -> None:
    """Print a result and append it to a file of results."""
    line = json.dumps(record, ensure_ascii=False)
    print(line, flush=True)
    results.parent.mkdir(exist_ok=True)
    with results.open("a", encoding="utf-8") as file:
        file.write(line + "\n")


def latest(results: Path) -> dict[str, Any]:
    """Return the last record of each name in a file of results."""
    lines = results.read_text(encoding="utf-8").splitlines() if results.exists() else []
    return {record["name"]: record for record in map(json.loads, lines)}


def linear(experiment: Experiment, data: Path) -> float:
    """Return the test accuracy, in percent, of logistic regression on TF-IDF of words and pairs of words."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    model = make_pipeline(
        TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, token_pattern=r"\S+"),
        LogisticRegression(C=10, max_iter=300),
    )
    train, test = (
        list(open_labelled([str(data / name) for name in names], DataConfig()).read(ReadReport()))
        for names in (experiment.train, experiment.test)
    )
    model.fit([each.text for each in train], [each.label for each in train])
    return 100 * model.score([each.text for each in test], [each.label for each in test])


def printed_by(*arguments: str) -> str:
    command = [sys.executable, "-m", "seqwright", *arguments]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def command(
    about: str,
    name: str,
    experiments: Mapping[str, E],
    run: Callable[..., dict[str, Any]],
    table: Callable[[], str],
    *,
    results: Path,
    minutes: float,
    data: str,
) -> None:
    """Run the command of a module that trains named experiments: `run(experiment, data, out, seed=…,
    minutes=…)` returns the record of one, and `table` what stands at the marker `name` of the page.

    about: the docstring of the module. data: what the folder DATA contains.
    """
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="?", type=Path, help="the folder of the data")
    parser.add_argument("--only", nargs="+", choices=experiments, default=[*experiments], metavar="NAME")
    parser.add_argument("--minutes", type=float, help=f"of each training (default {minutes:g})")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep the runs here")
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    if options.table:
        put(PAGE, name, table())
        return
    if options.data is None:
        parser.error(f"DATA is missing: the folder with {data}")
    for each in options.only:
        with nullcontext(options.keep) if options.keep else tempfile.TemporaryDirectory() as folder:
            out, time = Path(folder, f"{each}-{options.seed}"), options.minutes or minutes
            result = run(experiments[each], options.data, out, seed=options.seed, minutes=time)
        record = {"name": each, **result}
        if options.minutes is None:
            append(results, record)
        else:
            print(json.dumps(record, ensure_ascii=False), flush=True)


def table() -> str:
    """The latest result of each experiment, in their order."""
    found = latest(RESULTS)
    head = ["experiment", "minutes", "score", "aim", "published", "steps", "parameters", "memory", "seed"]
    rows = [_cells(experiment, found[name]) for name, experiment in EXPERIMENTS.items() if name in found]
    signatures = sorted({f"`{record['signature']}`" for record in found.values()})
    parts = [markdown(head, rows), f"Signatures: {', '.join(signatures) or 'none'}."]
    if mean := _mean_of_languages(found):
        parts.insert(1, mean)
    if missing := [name for name in EXPERIMENTS if name not in found]:
        parts.append(f"Not run yet: {', '.join(missing)}.")
    return "\n\n".join(parts)


def _mean_of_languages(latest: dict[str, Any]) -> str | None:
    """The mean over the languages of SIGMORPHON, next to the published means of the same five."""
    found = [latest[name] for code in _OFFICIAL if (name := f"sigmorphon-{code}") in latest]
    if len(found) < len(_OFFICIAL):
        return None
    mean = sum(record["metrics"]["word_error_rate"] for record in found) / len(found)
    single, ten = (sum(figures) / len(found) for figures in zip(*_OFFICIAL.values(), strict=True))
    return (
        f"SIGMORPHON 2021, mean of the five languages: word error rate **{mean:.1f}**; published "
        f"{single:.1f} ({SINGLE}) and {ten:.1f} (official ensembles of ten)."
    )


def _cells(experiment: Experiment, record: dict[str, Any]) -> list[str]:
    value, (low, high) = record["metrics"][experiment.metric], record["intervals"][experiment.metric]
    aim = "–"
    if experiment.aim is not None:
        higher = experiment.metric in HIGHER
        reached = value >= experiment.aim if higher else value <= experiment.aim
        aim = f"{'≥' if higher else '≤'} {experiment.aim:g}, {'reached' if reached else '**not reached**'}"
    peer = f", {record['linear']:.1f} (TF-IDF + logistic regression, same run)" if experiment.linear else ""
    if experiment.images is not None:
        peer = f"; {record['baseline'][experiment.metric]:.1f} (one fixed caption)"
    score = f"{experiment.metric.replace('_', ' ')} **{value:.2f}** ({low:.1f}–{high:.1f})"
    return [
        experiment.title,
        f"{record['minutes']:g}",
        score,
        aim,
        experiment.published + peer,
        f"{record['steps']:,}",
        f"{record['parameters'] / 1e6:.1f} M",
        f"{record['peak_memory_mb']} MB",
        str(record["seed"]),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", nargs="?", type=Path, help="the folder of the data")
    parser.add_argument("names", nargs="*", help=f"some of {', '.join(EXPERIMENTS)} (default: all)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--minutes", type=float, help="instead of those of the experiment; the result is not saved"
    )
    parser.add_argument("--keep", type=Path, help="keep the runs here (default: they are deleted)")
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    if options.table:
        put(PAGE, "quality", table())
        return
    for name in options.names or EXPERIMENTS:
        experiment = EXPERIMENTS[name]
        minutes = experiment.minutes if options.minutes is None else options.minutes
        with nullcontext(options.keep) if options.keep else tempfile.TemporaryDirectory() as folder:
            out = Path(folder, f"{name}-{options.seed}")
            record = {"name": name, **run(experiment, options.data, out, seed=options.seed, minutes=minutes)}
        if options.minutes is None:
            append(RESULTS, record)
        else:
            print(json.dumps(record, ensure_ascii=False), flush=True)


if __name__ == "__main__":
    main()
