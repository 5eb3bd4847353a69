"""From files to a finished run folder: what is designed, what is done, and what is done again."""

from __future__ import annotations

import html
import io
import json
import re
import shlex
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import seqwright
from seqwright import cli
from seqwright.config import Config, DataConfig, parse
from seqwright.config.presets import PINNED, PRESETS
from seqwright.data.corpus import Corpus
from seqwright.data.plan import Cursor
from seqwright.data.survey import survey
from seqwright.errors import ConfigError, InputError, ModelError
from seqwright.pipeline import DATA, EVALUATION, design, folder_for, from_file, merged, run_design
from seqwright.pipeline.hints import next_commands, resume_hint
from seqwright.runs.folder import Run
from seqwright.tasks.text_to_text import pairs_of
from seqwright.training.console import Console
from seqwright.training.trainer import Progress

SMALL = {
    "model": {"layers": 1, "size": 16, "hidden": 32, "heads": 2},
    "training": {"decode": 4, "tokens": 200},
    "threads": 1,
}
WORDS = [f"{a}{b}{c}" for a in "abcdef" for b in "ghijkl" for c in "mnop"]


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(f"{word}\t{' '.join(reversed(word))}\n" for word in WORDS), encoding="utf-8")
    return path


def small(pairs: Path, steps: int = 3) -> dict:
    return merged(SMALL, {"data": {"train": [str(pairs)]}, "training": {"steps": steps}})


# Design ---------------------------------------------------------------------------------------------


def test_it_is_said_in_few_lines_what_was_found_and_chosen(pairs: Path) -> None:
    lines = design({"data": {"train": [str(pairs)]}}).lines()
    assert len(lines) <= 24  # and one for the forecast
    text = "\n".join(lines)
    for part in ("144 pairs", "the first line has a tab", "split: ", "model tiny", "minutes of training"):
        assert part in text


def test_the_command_for_further_findings_can_be_copied(tmp_path: Path) -> None:
    rows = [(word, word[::-1]) for word in WORDS]
    rows += [
        rows[0],
        ("agm", "other"),
        ("same", "same"),
        ("", "blank"),
        ("x", "y" * 90),
        ("\u200bhid", "den"),
    ]
    files = [tmp_path / "my pairs.en", tmp_path / "my pairs.de"]
    for file, side in zip(files, zip(*rows, strict=True), strict=True):
        file.write_text("".join(f"{text}\n" for text in side), encoding="utf-8")
    text = "\n".join(design({"data": {"train": list(map(str, files))}}).lines())
    assert f"seqwright doctor '{files[0]}' '{files[1]}'" in text


def test_an_argument_that_train_does_not_have_is_named_with_those_that_it_has(pairs: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"unknown argument 'stesp'; did you mean 'steps'\?.*minutes.*model"
    ):
        seqwright.train(pairs, stesp=40)


def test_the_split_that_is_announced_is_the_one_that_is_made(pairs: Path) -> None:
    made = design(merged(small(pairs), {"data": {"split": 7}, "seed": 5}))
    corpus = Corpus.of(made.config)
    counts = {part: sum(1 for _ in corpus.examples(part)) for part in ("train", "valid", "test")}  # type: ignore[arg-type]
    assert made.to_json()["split"] == counts
    assert sum(counts.values()) == len(WORDS)


def test_files_of_their_own_and_leaks_are_counted(pairs: Path, tmp_path: Path) -> None:
    held = tmp_path / "valid.tsv"
    held.write_text("agm\tm g a\nnew\tw e n\n", encoding="utf-8")
    made = design(merged(small(pairs), {"data": {"valid": [str(held)]}}))
    assert made.to_json()["split"] == {"train": 144, "valid": 2, "test": 0}
    assert made.to_json()["leaks"] == 1
    assert "validation pairs whose source is in training: 1 of 2" in "\n".join(made.lines())


def test_lines_that_are_skipped_in_files_of_their_own_are_named(pairs: Path, tmp_path: Path) -> None:
    held = tmp_path / "valid.tsv"
    held.write_text("new\tw e n\n\nnewer\t\n", encoding="utf-8")
    said = "\n".join(design(merged(small(pairs), {"data": {"valid": [str(held)]}})).lines())
    assert f"lines skipped (blank line): 1 (first at {held}:2)" in said
    assert f"lines skipped (blank target): 1 (first at {held}:3)" in said


def test_pairs_of_too_many_tokens_are_named_before_the_first_step_and_in_the_report(
    pairs: Path, tmp_path: Path
) -> None:
    with pairs.open("a", encoding="utf-8") as file:
        file.writelines(f"{word * 4}\tx\n" for word in WORDS[:40])
    said, folder = io.StringIO(), tmp_path / "run"
    run_design(design(merged(small(pairs), {"data": {"max_length": 8}})), folder, Console(said))
    named = [line.split(" pairs")[0] for line in said.getvalue().split("\n") if "more than 8 tokens" in line]
    assert named == ["  warning: training", "  warning: validation"]
    findings = json.loads((folder / "data.json").read_text(encoding="utf-8"))["findings"]
    assert [found["name"] for found in findings][:2] == ["left_out"] * 2
    assert findings[0]["places"][0] == f"{pairs}:{len(WORDS) + 1}"
    assert findings[0]["sentence"] in (folder / "report.html").read_text(encoding="utf-8")


def test_what_leaks_from_one_part_is_not_said_of_the_other(pairs: Path, tmp_path: Path) -> None:
    files = {"valid": "agm\tm g a\nnew\tw e n\n", "test": "newer\tr e w e n\n"}
    for part, content in files.items():
        (tmp_path / f"{part}.tsv").write_text(content, encoding="utf-8")
    made = design(merged(small(pairs), {"data": {part: [str(tmp_path / f"{part}.tsv")] for part in files}}))
    assert made.to_json()["leaks_by_part"] == {"valid": 1, "test": 0}
    assert [line for line in made.lines() if "test pairs" in line] == []


@pytest.mark.parametrize("count", [3, 5, 8, 12, 40])
def test_few_pairs_are_split_so_that_each_part_has_some_or_refused_before_anything_is_made(
    count: int, tmp_path: Path
) -> None:
    refused = 0
    for number in range(20):
        path = tmp_path / f"{number}.tsv"
        path.write_text("".join(f"{number} {k}\t{k}\n" for k in range(count)), encoding="utf-8")
        made = design({"data": {"train": [str(path)]}})
        try:
            made.check_parts()
        except InputError:
            refused += 1
        else:
            assert min(made.to_json()["split"].values()) > 0
    assert refused <= 20 * 0.5 ** (count - 3)  # the chance is 0.5 ** (count - 1), and a little more


def test_a_share_that_was_asked_for_is_not_changed(tmp_path: Path) -> None:
    path = tmp_path / "few.tsv"
    path.write_text("".join(f"{k}\t{k}\n" for k in range(6)), encoding="utf-8")
    made, folder = design({"data": {"train": [str(path)], "held_out": 0.001}}), tmp_path / "run"
    with pytest.raises(
        InputError, match=r"6 distinct sources; .*held_out = 0.001 the validation split is empty"
    ):
        run_design(made, folder, Console(None))
    assert not folder.exists()


@pytest.mark.parametrize(
    ("trained", "others"),
    [
        (["a.csv"], "test.csv"),
        (["my a.tsv", "b.tsv"], "test.tsv"),
        (["a.en", "a.de"], "test.en test.de"),
        (["pairs"], "test"),
        (["a.csv.gz"], "test.csv"),
    ],
)
def test_the_command_to_evaluate_names_files_like_those_of_the_training(trained, others) -> None:
    said = next_commands(Path("run"), "text", trained)
    assert any(line.startswith(f"  seqwright evaluate run {others} ") for line in said)


def test_a_training_says_how_it_goes_on(pairs: Path, tmp_path: Path, capsys) -> None:
    folder, said = tmp_path / "run", io.StringIO()
    run_design(design(small(pairs, steps=20)), folder, Console(said))
    (line,) = (line for line in said.getvalue().splitlines() if "more time may help" in line)
    command = shlex.split(line.partition("#")[0])
    assert command == ["seqwright", "train", str(pairs), "--out", str(folder), "--steps", "40"]
    assert cli.main([*command[1:], "--quiet"]) == 0
    assert Run.open(folder).checkpoints().steps()[-1] == 40


@pytest.mark.parametrize(
    ("losses", "best", "helps"),
    [
        ({10: 1.0, 20: 1.1}, 20, True),  # the last was the best
        ({10: 1.0, 20: 1.01}, 10, True),  # level
        ({10: 1.0, 20: 1.1}, 10, False),
    ],
)
def test_more_time_helps_until_pairs_are_learned_by_heart(pairs: Path, tmp_path: Path, losses, best, helps):
    config = design(small(pairs, steps=20)).config
    run = Run.create(tmp_path / "run", config.to_dict())
    for step, loss in losses.items():
        run.log({"step": step, "loss": 1.0})
        run.log({"step": step, "valid_loss": loss})
    (said,) = resume_hint(config, run.folder, Progress(step=20, best_step=best))
    assert ("--steps 40" in said) == helps
    assert ("lowest at step 10 of 20" in said) != helps


@pytest.mark.parametrize(("epoch", "ended"), [(2, False), (3, True)])
def test_a_training_that_its_epochs_ended_does_not_ask_for_more_time(
    pairs: Path, tmp_path: Path, epoch, ended
):
    ends = {"minutes": 5.0, "most_epochs": 3.0}
    config = design({"data": {"train": [str(pairs)]}, "training": ends}).config
    run = Run.create(tmp_path / "run", config.to_dict())
    (said,) = resume_hint(config, run.folder, Progress(step=20, best_step=20, cursor=Cursor(epoch=epoch)))
    assert ("3 epochs ended the training; a larger training.most_epochs resumes it" in said) == ended
    assert ("--minutes 10" in said) != ended


def test_a_training_goes_on_with_its_files_however_they_are_spelt(
    pairs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = tmp_path / "held.tsv"
    shutil.copy(pairs, held)
    folder = tmp_path / "run"
    assert cli.main(_training(pairs, held, folder, steps=2)) == 0
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    assert cli.main(_training("../pairs.tsv", "../held.tsv", folder, steps=3)) == 0
    assert Run.open(folder).checkpoints().steps()[-1] == 3
    assert cli.main(_training(pairs, pairs, folder, steps=4)) == 3


def _training(train: Path | str, valid: Path | str, folder: Path, *, steps: int) -> list[str]:
    sizes = ["model.layers=1", "model.size=16", "model.hidden=32", "model.heads=2", "threads=1"]
    files = [str(train), "--valid", str(valid), "--out", str(folder)]
    return ["train", *files, "--steps", str(steps), "--quiet", "training.decode=4", *sizes]


def test_the_longest_source_of_a_training_is_known_to_its_model(pairs: Path, tmp_path: Path) -> None:
    run_design(design(small(pairs)), tmp_path / "run", Console(None))
    assert seqwright.load(tmp_path / "run").trained_length == 3


def test_an_unknown_option_of_the_model_is_named_once(pairs: Path) -> None:
    with pytest.raises(ConfigError) as error:
        design(small(pairs), ["model.presett=tiny"])
    assert str(error.value).count("unknown option") == 1


def test_the_text_of_a_command_to_copy_stays_one_text() -> None:
    for text in ("it's", "don't\tV;PST", "a\\b\t'", '$x `y` "z"'):
        (line,) = (line for line in next_commands(Path("run"), text) if " look " in line)
        word = line.partition(" run ")[2].partition(" -o ")[0]
        assert "\t" not in word  # it would be lost
        said = subprocess.run(["bash", "-c", f"printf %s {word}"], capture_output=True, check=True)
        assert said.stdout.decode() == text


def test_a_configuration_may_begin_with_the_mark_of_its_encoding(pairs: Path, tmp_path: Path) -> None:
    (tmp_path / "x.toml").write_text("seed = 3\n", encoding="utf-8-sig")
    assert from_file(str(tmp_path / "x.toml")) == {"seed": 3}


def test_a_key_that_stands_elsewhere_is_named_with_its_place(pairs: Path) -> None:
    for wrong, right in (("training.dropout=0.1", "model.dropout"), ("tokens=9", "training.tokens")):
        with pytest.raises(ConfigError, match=f"unknown key '{wrong.split('=')[0]}'; did you mean '{right}'"):
            design({"data": {"train": [str(pairs)]}}, [wrong])


@pytest.mark.parametrize(
    ("file", "folder"),
    [
        ("train.en-fr.tsv", "train.en-fr"),
        ("data/train.en", "train"),
        ("german.train.tsv.gz", "german.train"),
        ("pairs", "pairs"),
        ("..", "run"),
        ("", "run"),
    ],
)
def test_a_run_is_called_as_its_file_is(file: str, folder: str) -> None:
    assert folder_for(file) == Path("runs", folder)


def test_changes_are_over_everything(pairs: Path) -> None:
    made = design({"data": {"train": [str(pairs)]}}, ["model=small", "training.epochs=2", "model.dropout=0"])
    assert made.config.model["preset"] == "small"  # type: ignore[index]
    assert made.config.model["share"] is False  # type: ignore[index]  # as the recipe found
    assert made.config.model["dropout"] == 0  # type: ignore[index]
    assert (made.config.training.epochs, made.config.training.minutes) == (2, None)
    assert "as requested: model=small training.epochs=2 model.dropout=0" in "\n".join(made.lines())


def test_what_is_wrong_is_said_at_once_and_before_anything_is_read() -> None:
    with pytest.raises(ConfigError, match=r"did you mean 'model'.*training.smoothing is 3"):
        design({"data": {"train": ["nowhere.tsv"]}}, ["modle.layers=2", "training.smoothing=3"])


def test_all_that_is_wrong_with_parts_and_values_is_said_at_once() -> None:
    wrong = [
        "model.foo=1",
        "model.preset=tinny",
        "training.metric=blue",
        "training.optimizer=adamm",
        "seed=x",
    ]
    with pytest.raises(ConfigError) as error:
        design({"data": {"train": ["not there"]}, "training": {"steps": 1, "minutes": 1}}, wrong)
    for word in ("'foo'", "'tiny'", "'bleu'", "'adamw'", "seed is 'x'", "not steps and minutes"):
        assert word in str(error.value)


def test_columns_of_a_source_are_written_down_with_their_roles(tmp_path: Path) -> None:
    path = tmp_path / "forms.tsv"
    path.write_text("".join(f"{word}\t{word}ed\tV;PST\n" for word in WORDS), encoding="utf-8")
    assert design(small(path)).config.data.columns == "1=,3+:2"


def test_a_configuration_that_was_written_is_not_added_to(pairs: Path) -> None:
    table = {"data": {"train": [str(pairs)]}, "model": {"preset": "tiny", "share": False}}
    made = design({**table, "training": {"steps": 1}}, by_recipe=False)
    assert made.config == parse({**table, "training": {"steps": 1}})
    with pytest.raises(ConfigError, match="one of steps, epochs and minutes"):
        design(table, by_recipe=False)


# Work -----------------------------------------------------------------------------------------------


def test_a_run_ends_with_a_score_on_pairs_that_it_did_not_see(pairs: Path, tmp_path: Path) -> None:
    made, folder = design(small(pairs)), tmp_path / "run"
    evaluation = run_design(made, folder, Console(None))
    kept = json.loads((folder / EVALUATION).read_text())
    held = {p.source for p in Corpus.of(made.config).examples("test")}
    assert evaluation is not None
    assert {item.example.source for item in evaluation.items} == held
    assert (kept["part"], kept["file"]) == ("test", f"test part of {pairs}")
    assert kept["metrics"].keys() >= {"exact_match", "word_error_rate", "symbol_error_rate"}
    for name in (DATA, "examples.json", "report.html", "README.md"):
        assert (folder / name).stat().st_size > 100
    assert all("probes" in record for record in Run.open(folder).records() if "valid_loss" in record)


def test_the_configuration_of_a_report_can_be_trained_again(pairs: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    run_design(design(small(pairs, steps=1)), folder, Console(None))
    (block,) = re.findall("<pre[^>]*>(.*?)</pre>", (folder / "report.html").read_text(), re.DOTALL)
    (tmp_path / "run.toml").write_text(html.unescape(block), encoding="utf-8")
    assert cli.main(["train", str(tmp_path / "run.toml"), "--out", str(tmp_path / "again"), "--quiet"]) == 0
    configs = [Run.open(tmp_path / name).config for name in ("run", "again")]
    assert configs[0] == configs[1]
    assert PINNED in configs[0]["model"]
    assert PINNED not in block


def test_the_final_test_computes_with_the_threads_that_were_asked_for(pairs: Path, tmp_path: Path) -> None:
    table = merged(small(pairs, steps=1), {"threads": 2})
    run_design(design(table), tmp_path / "run", Console(None))
    kept = json.loads((tmp_path / "run" / EVALUATION).read_text())
    assert kept["speed"]["threads"] == 2
    assert torch.get_num_threads() == 1  # as in all tests


def test_a_test_of_its_own_is_named(pairs: Path, tmp_path: Path) -> None:
    held = tmp_path / "held.tsv"
    held.write_text("agm\tm g a\nnew\tw e n\n", encoding="utf-8")
    table = merged(small(pairs, steps=1), {"data": {"test": [str(held)]}})
    run_design(design(table), tmp_path / "run", Console(None))
    kept = json.loads((tmp_path / "run" / EVALUATION).read_text())
    assert (kept["file"], kept["items"]) == (str(held), 2)


def test_a_finished_run_is_evaluated_again_only_after_more_training(pairs: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    assert run_design(design(small(pairs)), folder, Console(None)) is not None
    before = (folder / EVALUATION).stat().st_mtime_ns
    assert run_design(design(small(pairs)), folder, Console(None)) is None
    assert (folder / EVALUATION).stat().st_mtime_ns == before
    run_design(
        design(small(pairs, steps=40), folder=folder), folder, Console(None)
    )  # of itself the recipe would choose otherwise
    resume_hint = design(small(pairs, steps=50), folder=folder).lines()
    assert f"  resumes {folder} at step 40: its weights, tokenizers" in "\n".join(resume_hint)
    step = Run.open(folder).weights_metadata()["step"]
    assert json.loads((folder / EVALUATION).read_text())["step"] == step


def test_what_its_patience_ended_says_how_it_goes_on(pairs: Path, tmp_path: Path) -> None:
    folder, said = tmp_path / "run", io.StringIO()
    impatient = {"patience": 1, "validate_every": 1, "optimizer": {"rate": 10.0}}
    table = merged(small(pairs, steps=50), {"training": impatient})
    for _ in range(2):
        run_design(design(table, folder=folder), folder, Console(said))
    assert (
        "1 validation without improvement ended the training; a larger training.patience" in said.getvalue()
    )
    assert max(Run.open(folder).checkpoints().steps()) < 50


def test_what_goes_on_is_read_as_it_was_begun(pairs: Path, tmp_path: Path) -> None:
    """Columns, encoding and seed stand in the folder: what is said and written down is of these."""
    latin, folder = tmp_path / "latin.tsv", tmp_path / "run"
    latin.write_bytes("".join(f"{word}\t{' '.join(word)} é\n" for word in WORDS).encode("latin-1"))
    begun = merged(small(latin), {"data": {"columns": "2:1", "encoding": "latin-1"}, "seed": 5})
    run_design(design(begun, folder=folder), folder, Console(None))
    resume_hint = design(small(latin, steps=4), folder=folder)
    corpus = Corpus.of(resume_hint.config)
    counts = {part: sum(1 for _ in corpus.examples(part)) for part in ("train", "valid", "test")}  # type: ignore[arg-type]
    assert (resume_hint.config.data.columns, resume_hint.config.seed) == ("2:1", 5)
    assert resume_hint.to_json()["split"] == counts
    assert resume_hint.survey.report.columns["source"].characters.mean == 7
    with pytest.raises(ModelError, match="was started with other data"):
        design(small(pairs), folder=folder)


def test_a_run_that_was_left_before_its_card_was_written_is_finished_by_the_next(
    pairs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def left(folder: Path) -> None:
        raise KeyboardInterrupt

    folder = tmp_path / "run"
    for writer in ("report.write_report", "card.write_card"):
        with monkeypatch.context() as patch:
            patch.setattr(f"seqwright.runs.{writer}", left)
            with pytest.raises(KeyboardInterrupt):
                run_design(design(small(pairs)), folder, Console(None))
    assert run_design(design(small(pairs)), folder, Console(None)) is not None
    assert (folder / "README.md").exists()
    assert (folder / "report.html").exists()
    assert run_design(design(small(pairs)), folder, Console(None)) is None


def test_without_a_test_the_score_is_said_to_be_of_the_pairs_that_chose_the_model(
    pairs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("held.tsv").write_text("agm\tm g a\ngma\ta m g\n", encoding="utf-8")
    table = merged(small(pairs, steps=1), {"data": {"valid": ["held.tsv"]}})
    evaluation = run_design(design(table), tmp_path / "run", Console(None))
    assert str(evaluation).startswith("held.tsv: 2 items")
    assert "items whose source is in the validation split: 2 of 2" in str(evaluation)


def test_a_training_that_has_not_ended_is_no_damaged_model(pairs: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    run_design(design(small(pairs)), folder, Console(None))
    (folder / "model.safetensors").unlink()
    with pytest.raises(ModelError, match=r"has no model yet, .*run the same train command again"):
        seqwright.load(folder)


def test_a_model_without_checkpoints_is_not_trained_over(pairs: Path, tmp_path: Path) -> None:
    """They may have been removed, which prediction does not need, or never been there, as after pruning."""
    folder = tmp_path / "run"
    run_design(design(small(pairs)), folder, Console(None))
    shutil.rmtree(folder / "checkpoints")
    for by_recipe in (True, False):
        with pytest.raises(ModelError, match="holds a model but no checkpoints to resume from"):
            design(small(pairs), folder=folder, by_recipe=by_recipe)


def test_a_run_outlives_a_change_of_its_preset(
    pairs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It loads, goes on, by recipe and by configuration, and can be the start of another."""
    folder, asked = tmp_path / "run", {"preset": "bahdanau2015", "size": 8, "embedding_size": 8}
    table = {**small(pairs), "model": {**asked, "readout_size": 4}}
    run_design(design(table, folder=folder), folder, Console(None))
    said = seqwright.load(folder).predict("agm")[0].text
    preset = PRESETS["bahdanau2015"]
    changed = {**preset.model, "encoder": {**preset.model["encoder"], "layers": 3}}
    monkeypatch.setitem(PRESETS, "bahdanau2015", replace(preset, model=changed))
    assert seqwright.load(folder).predict("agm")[0].text == said
    longer = merged(table, {"training": {"steps": 4}})
    run_design(design(longer, folder=folder), folder, Console(None))
    plain = merged(Run.open(folder).config, {"training": {"steps": 5}, "model": table["model"]})
    plain["model"].pop(PINNED)
    run_design(design(plain, folder=folder, by_recipe=False), folder, Console(None))
    assert Run.open(folder).checkpoints().steps()[-1] == 5
    other = merged(plain, {"model": {"preset": "cho2014"}})
    with pytest.raises(ModelError, match=r'started .* \(model.preset: "bahdanau2015" -> "cho2014"\);'):
        run_design(design(other, folder=folder, by_recipe=False), folder, Console(None))
    start = {"data": table["data"], "training": {"steps": 1}, "start": str(folder)}
    run_design(design(start), tmp_path / "tuned", Console(None))
    run_design(design(merged(start, {"model": table["model"]})), tmp_path / "named", Console(None))
    with pytest.raises(ModelError, match="has another model"):
        run_design(design(merged(start, {"model": {"preset": "cho2014"}})), tmp_path / "other", Console(None))


def test_fine_tuning_takes_tokenizers_and_model_of_its_start(pairs: Path, tmp_path: Path) -> None:
    first, own = tmp_path / "first", tmp_path / "own.tsv"
    run_design(design(small(pairs)), first, Console(None))
    own.write_text("".join(f"{word}\t{' '.join(word)}\n" for word in WORDS[:60]), encoding="utf-8")
    table = {"data": {"train": [str(own)]}, "training": {"steps": 2}, "start": str(first)}
    made = design(table)
    assert made.config.model == Run.open(first).config["model"]
    assert f"those of {first}" in "\n".join(made.lines())
    assert run_design(made, tmp_path / "second", Console(None)) is not None


# Python ---------------------------------------------------------------------------------------------


def test_pairs_from_memory_train_and_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    memory = [(word, " ".join(reversed(word))) for word in [*WORDS, 'a"b\tc']]
    model = seqwright.train(memory, steps=2, quiet=True, **SMALL)
    assert isinstance(model.predict("agm")[0].text, str)
    (folder,) = (path for path in Path("runs").iterdir() if path.is_dir())
    before = (folder / "model.safetensors").stat().st_mtime_ns
    seqwright.train(memory, steps=2, quiet=True, **SMALL)
    assert (folder / "model.safetensors").stat().st_mtime_ns == before


def test_a_file_of_somebody_else_is_not_written_over(tmp_path: Path) -> None:
    memory = [(word, " ".join(word)) for word in WORDS]
    (tmp_path / "mine.jsonl").write_text("precious", encoding="utf-8")
    for steps in (1, 2):
        seqwright.train(memory, out=f"{tmp_path}/mine/", steps=steps, quiet=True, **SMALL)
    assert (tmp_path / "mine.jsonl").read_text(encoding="utf-8") == "precious"
    (pairs,) = tmp_path.glob("mine-*.jsonl")
    assert Run.open(tmp_path / "mine").config["data"]["train"] == [str(pairs)]


def test_what_python_leaves_open_is_as_it_was_begun(pairs: Path, tmp_path: Path) -> None:
    held = tmp_path / "held.tsv"
    held.write_text("m g a\tagm\n", encoding="utf-8")
    how = {"out": tmp_path / "run", "quiet": True}
    seqwright.train(pairs, columns="2:1", valid=held, steps=1, **how, **SMALL)
    seqwright.train(pairs, steps=2, **how)
    config = Run.open(tmp_path / "run").config
    assert (config["data"]["columns"], config["data"]["valid"]) == ("2:1", [str(held)])
    assert config["training"]["steps"] == 2


@pytest.mark.parametrize("part", ["valid", "test"])
def test_held_out_pairs_are_not_passed_over(part: str, pairs: Path, tmp_path: Path) -> None:
    for given in ([("a", "b")], iter([("a", "b")]), 3):
        with pytest.raises(InputError, match=f"{part} is .*; name files that hold its examples"):
            seqwright.train(pairs, out=tmp_path / "run", quiet=True, **{part: given})
    assert not (tmp_path / "run").exists()


def test_files_may_be_paths_one_or_several(pairs: Path, tmp_path: Path) -> None:
    for number, files in enumerate((pairs, str(pairs), [pairs], [pairs, str(pairs)])):
        model = seqwright.train(files, out=tmp_path / f"run{number}", steps=1, quiet=True, **SMALL)
    sides = [tmp_path / "held.en", tmp_path / "held.de"]
    for side, text in zip(sides, ("agm\nbhn\n", "m g a\nn h b\n"), strict=True):
        side.write_text(text, encoding="utf-8")
    assert len(model.evaluate(sides).items) == 2


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([("a",)], r"pair 1 is \('a',\)"),
        ([("a", "b"), "cd"], "pair 2 is 'cd'"),
        ([("a", 3)], r"pair 1 is \('a', 3\)"),
        ([(("a", "V"), "b")], r"\('a', 'V'\) is not a text"),
        (3, "3 holds no pairs"),
        (None, "None holds no pairs"),
        ([], "no pairs were given"),
    ],
)
def test_what_is_no_pair_is_named(given, words: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=words):
        seqwright.train(given, out=tmp_path / "run", quiet=True)
    assert list(tmp_path.iterdir()) == []


def test_one_pair_is_told_from_a_list_of_pairs() -> None:
    with pytest.raises(InputError, match=r"\('a', 'b'\) is one pair; give a list of pairs"):
        list(pairs_of(("a", "b")))


def test_no_pairs_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no pairs"):
        seqwright.train([], out=tmp_path / "run", quiet=True)


def test_the_doctor_is_called_as_the_files_were_read(tmp_path):
    rows = [f'"{text}",{text},x' for text in ("a  b", "c ", "d\u2028e", "f\ufffd", "g", "g", "Ã©")]
    (tmp_path / "a.csv").write_text("english,ukrainian,list\n" + "\n".join(rows) + "\n", encoding="utf-8")
    data = DataConfig(train=(str(tmp_path / "a.csv"),), columns="english:ukrainian", quoting=True)
    found = survey(Config(data=data))
    command = next(line for line in found.lines() if "more finding" in line)
    assert "a.csv data.columns=english:ukrainian data.quoting=true (--fix" in command
