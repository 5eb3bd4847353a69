"""The training loop: it resumes exactly anywhere, and reports, counts and survives failures.

The numbers in the names are those of a list of known failures of training programs.
"""

from __future__ import annotations

import errno
import math
import os
import signal
import time
from collections import Counter
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path

import pytest
import tiny
import torch
from hypothesis import given
from hypothesis import strategies as st
from tiny import train

from seqwright import files
from seqwright.errors import ConfigError, DivergedError, ModelError, WriteError
from seqwright.models.encoder_decoder import EncoderDecoder
from seqwright.nn.loss import Loss
from seqwright.runs.folder import Run
from seqwright.training import run as training_run
from seqwright.training import trainer
from seqwright.training.interrupt import Interrupt, Interrupted
from seqwright.training.optimizer import OPTIMIZERS
from seqwright.training.run import existing_run
from seqwright.training.validation import Judged, Validator

ONLY_STEPS = ("training.validate_every=1000",)  # only the interruption saves


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Log every step."""
    monkeypatch.setattr(trainer, "LOG_SECONDS", 0.0)


@pytest.fixture(scope="module")
def pairs(tmp_path_factory) -> Path:
    return tiny.reversals(tmp_path_factory.mktemp("pairs") / "pairs.tsv")


@pytest.fixture(scope="module")
def whole(pairs, tmp_path_factory):
    """An uninterrupted training of three epochs: (folder, batches)."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    with pytest.MonkeyPatch.context() as patch, tiny.batches_seen() as seen:
        patch.setattr(trainer, "LOG_SECONDS", 0.0)
        train(tiny.configuration(pairs, "training.epochs=3", *ONLY_STEPS), folder)
    return folder, seen


# Interrupted and resumed ------------------------------------------------------------------------------


def cut(config, folder: Path, *steps: int) -> list[tuple[int, tuple[int, ...]]]:
    """Interrupt after these numbers of steps, counted from each start; return all batches."""
    with tiny.batches_seen() as seen:
        for count in steps:
            assert tiny.interrupted(config, folder, "train:step", count) == 143
        train(config, folder)
    return seen


def test_08_resumed_at_each_step_of_the_second_epoch_the_order_is_the_same(pairs, whole, tmp_path):
    folder, batches = whole
    config = tiny.configuration(pairs, "training.epochs=3", *ONLY_STEPS)
    second = [number for number, (epoch, _) in enumerate(batches, 1) if epoch == 1]
    for step in second:
        assert cut(config, tmp_path / str(step), step) == batches
    assert tiny.digest(tmp_path / str(second[0])) == tiny.digest(folder)


def test_09_five_interruptions_within_one_epoch_lose_nothing(pairs, whole, tmp_path):
    folder, batches = whole
    config = tiny.configuration(pairs, "training.epochs=3", *ONLY_STEPS)
    assert cut(config, tmp_path / "run", 11, 1, 2, 1, 2) == batches
    assert tiny.digest(tmp_path / "run") == tiny.digest(folder)


def test_10_13_no_epoch_is_shortened_or_skipped_after_a_resume(pairs, whole, tmp_path):
    config = tiny.configuration(pairs, "training.epochs=3", *ONLY_STEPS)
    examples = {example for _, batch in whole[1] for example in batch}
    for epoch in range(3):
        counts = Counter(
            example
            for number, batch in cut(config, tmp_path / str(epoch), 4)
            if number == epoch
            for example in batch
        )
        assert set(counts.values()) == {1}
        assert counts.keys() == examples


def test_12_a_checkpoint_at_the_end_of_an_epoch_and_around_it(pairs, whole, tmp_path):
    folder, batches = whole
    config = tiny.configuration(pairs, "training.epochs=3", *ONLY_STEPS)
    end = sum(epoch == 0 for epoch, _ in batches)
    for step in (end - 1, end, end + 1):
        assert cut(config, tmp_path / str(step), step) == batches
        assert tiny.digest(tmp_path / str(step)) == tiny.digest(folder)


def test_16_the_sequence_of_losses_is_bitwise_the_same_after_a_resume(pairs, whole, tmp_path):
    folder, batches = whole
    config = tiny.configuration(pairs, "training.epochs=3", *ONLY_STEPS)
    cut(config, tmp_path / "run", 7, 9)
    records = tiny.step_records(tmp_path / "run")
    assert [step for step, *_ in records] == list(range(1, len(batches) + 1))
    assert records == tiny.step_records(folder)


def test_16_what_was_logged_after_the_checkpoint_of_a_kill_is_logged_once(pairs, tmp_path):
    """Killed at step 15 with a checkpoint of step 10: five steps are taken and logged again."""
    config = tiny.configuration(pairs)
    assert tiny.train_and_die(config, tmp_path / "run", tiny.at("train:step", 15, tiny.die)) < 0
    assert len(tiny.step_records(tmp_path / "run")) == 14
    train(config, tmp_path / "run")
    assert [step for step, *_ in tiny.step_records(tmp_path / "run")] == list(range(1, 31))


def test_23_dropout_is_the_same_after_a_resume(pairs, tmp_path):
    config = tiny.configuration(pairs, "model.dropout=0.3", "training.steps=12")
    train(config, tmp_path / "whole")
    cut(config, tmp_path / "cut", 5)
    assert tiny.step_records(tmp_path / "cut") == tiny.step_records(tmp_path / "whole")
    assert tiny.digest(tmp_path / "cut") == tiny.digest(tmp_path / "whole")
    train(tiny.configuration(pairs, "model.dropout=0.0", "training.steps=12"), tmp_path / "none")
    assert tiny.digest(tmp_path / "none") != tiny.digest(tmp_path / "whole")


@pytest.mark.parametrize(
    "changes",
    [
        ["training.optimizer.kind=muon"],
        ["training.average=0"],
        ["tokenizer.joint=true", "model.share=true"],
        ["tokenizer.source={kind='bpe', max_size=30, dropout=0.3}", "tokenizer.sampled=true"],
        ["model={encoder={kind='rnn', size=16}, decoder={kind='rnn', size=16}, tie=false}"],
        ["model.kind=ensemble", "model.encoder.neighbours=1"],
    ],
    ids=["muon", "no average", "shared", "sampled", "rnn", "ensemble"],
)
def test_16_resume_is_exact_for_other_parts(pairs, tmp_path, changes):
    config = tiny.configuration(pairs, "training.steps=12", *changes)
    train(config, tmp_path / "whole")
    cut(config, tmp_path / "cut", 7)
    assert tiny.step_records(tmp_path / "cut") == tiny.step_records(tmp_path / "whole")
    assert tiny.digest(tmp_path / "cut") == tiny.digest(tmp_path / "whole")


def test_17_patience_and_the_best_survive_a_resume(pairs, tmp_path):
    """With a rate near zero no validation is better than the first."""
    stuck = ("training.optimizer.rate=1e-30", "training.average=0", "training.validate_every=2")
    config = tiny.configuration(pairs, *stuck, "training.patience=4")
    progress = train(config, tmp_path / "whole")
    assert (progress.step, progress.best_step, progress.worse) == (10, 2, 4)
    with tiny.batches_seen() as seen:
        for _ in range(3):
            tiny.interrupted(config, tmp_path / "cut", "train:step", 3)
        resumed = train(config, tmp_path / "cut")
    assert len(seen) == 10
    assert (resumed.step, resumed.best_step, resumed.worse, resumed.best) == (10, 2, 4, progress.best)


def judge(monkeypatch, *values: float, error: float = 0.0) -> None:
    """Let the validations return these values, in order; the lowest is the best."""
    found = iter(values)
    verdict = lambda self, metric: Judged(next(found), "lower", error)  # noqa: E731
    monkeypatch.setattr(trainer.Validation, "judged", verdict)


def test_17_the_exported_weights_are_those_of_the_best_validation(pairs, tmp_path, monkeypatch):
    """By the metric the second of three validations is the best."""
    judge(monkeypatch, 3.0, 1.0, 2.0)
    train(tiny.configuration(pairs), tmp_path / "run")
    run = Run.open(tmp_path / "run")
    assert run.weights_metadata()["step"] == "20"
    kept = run.checkpoints().read(run.checkpoints().best(), parts=["average"]).tensors["average"]
    exported = run.load_weights()
    assert all(torch.equal(exported[name], tensor) for name, tensor in kept.items())


@pytest.mark.parametrize(("last", "step"), [(1.4, "30"), (1.6, "20")])
def test_of_validations_within_an_error_the_latest_is_exported(pairs, tmp_path, monkeypatch, last, step):
    judge(monkeypatch, 3.0, 1.0, last, error=0.5)
    progress = train(tiny.configuration(pairs), tmp_path / "run")
    run = Run.open(tmp_path / "run")
    assert (progress.best, progress.best_step, progress.worse) == (1.0, 20, 1)
    assert run.weights_metadata()["step"] == step == str(progress.kept_step)
    assert [record["kept"] for record in run.records() if "kept" in record] == [True, True, step == "30"]
    assert run.checkpoints().best().name == f"step_{int(step):08d}"


@given(
    values=st.lists(st.sampled_from([math.nan, 0.0, 1.0, 2.0, 3.0, 4.0]), min_size=1, max_size=8),
    error=st.sampled_from([0.0, 0.5, 1.5, 2.5]),
    sign=st.sampled_from([1, -1]),
)
def test_the_kept_step_is_the_latest_within_an_error_of_the_best(values, error, sign):
    """Each validation is compared with the best one only, even if each is a little worse than the last."""
    progress = trainer.Progress()
    for step, value in enumerate(values, 1):
        progress = progress.after(step, Judged(sign * value, "higher" if sign > 0 else "lower", error))
    numbers = [value for value in values if not math.isnan(value)]
    if not numbers:
        assert (progress.best, progress.best_step, progress.kept_step) == (None, 0, 0)
        return
    best = values.index(max(numbers))
    good = [step for step, value in enumerate(values) if value > max(numbers) - error]
    assert (progress.best, progress.best_step) == (sign * max(numbers), best + 1)
    assert progress.kept_step == max([best, *good]) + 1
    assert progress.worse == len(values) - best - 1


def test_an_old_checkpoint_kept_the_best():
    old = asdict(trainer.Progress(best=1.0, best_step=7))
    del old["kept_step"], old["best_error"]
    assert trainer.Progress.from_json(old) == trainer.Progress(best=1.0, best_step=7, kept_step=7)


# Finished -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes", [("training.steps=6",), ("training.validate_every=2", "training.patience=1")]
)
def test_18_52_a_finished_training_is_left_as_it_is(pairs, tmp_path, changes):
    stuck = ("training.optimizer.rate=1e-30", "training.average=0")
    config = tiny.configuration(pairs, *stuck, *changes)
    first = train(config, tmp_path / "run")
    before = tiny.snapshot(tmp_path / "run")
    with tiny.batches_seen() as seen:
        assert train(config, tmp_path / "run") == first
    assert seen == []
    assert tiny.snapshot(tmp_path / "run") == before


def test_18_more_steps_resume_where_it_ended(pairs, tmp_path):
    with tiny.batches_seen() as seen:
        train(tiny.configuration(pairs, "training.steps=6"), tmp_path / "run")
        progress = train(tiny.configuration(pairs, "training.steps=9"), tmp_path / "run")
    assert (progress.step, len(seen), progress.finished) == (9, 9, True)
    plan = [record for record in Run.open(tmp_path / "run").records() if "rate" in record]
    assert [record["step"] for record in plan] == list(range(1, 10))
    assert Run.open(tmp_path / "run").config["training"]["steps"] == 9


def test_18_fewer_steps_than_were_taken_are_finished(pairs, tmp_path):
    train(tiny.configuration(pairs, "training.steps=6"), tmp_path / "run")
    progress = train(tiny.configuration(pairs, "training.steps=4"), tmp_path / "run")
    assert (progress.step, progress.finished) == (6, True)


# Changes that are refused --------------------------------------------------------------------------------


def test_14_50_another_configuration_is_refused_with_the_difference(pairs, tmp_path):
    train(tiny.configuration(pairs, "training.steps=3"), tmp_path / "run")
    before = tiny.snapshot(tmp_path / "run")
    for change, shown in (
        ("training.tokens=50", "training.tokens: 100 -> 50"),
        ("model.layers=3", "model.layers: 2 -> 3"),
        ("training.optimizer.rate=0.5", "training.optimizer"),
        ("seed=9", "seed: 1 -> 9"),
    ):
        with pytest.raises(ModelError, match="started with another configuration") as error:
            train(tiny.configuration(pairs, "training.steps=3", change), tmp_path / "run")
        assert shown in str(error.value)
        assert error.value.exit_code == 3
    assert tiny.snapshot(tmp_path / "run") == before


def test_14_a_key_that_begins_like_a_free_one_is_not_free(pairs, tmp_path, monkeypatch):
    config = tiny.configuration(pairs, "training.steps=2")
    train(config, tmp_path / "run")
    for line, refused in (("training.keep: 1 -> 2", False), ("training.keep_every: 1 -> 2", True)):
        monkeypatch.setattr("seqwright.training.run.differences", lambda old, new, line=line: [line])
        with pytest.raises(ModelError, match="keep_every") if refused else nullcontext():
            existing_run(config, tmp_path / "run")


def test_14_a_cursor_of_another_plan_is_refused(pairs, tmp_path, monkeypatch):
    """The same configuration, but a program that makes other batches."""
    config = tiny.configuration(pairs, "training.steps=3")
    tiny.interrupted(config, tmp_path / "run", "train:step", 2)
    monkeypatch.setattr("seqwright.data.plan.RULE", 2)
    with pytest.raises(ModelError, match="the batches are not those of"):
        train(config, tmp_path / "run")


def test_32_every_wrong_part_is_named_before_anything_is_made(pairs, tmp_path):
    config = tiny.configuration(
        pairs,
        "training.optimizer.rat=1",
        "training.schedule=lineal",
        "training.metric=bleurt",
        "tokenizer.source=character",
        "model.heads=3",
    )
    with pytest.raises(ConfigError) as error:
        train(config, tmp_path / "run")
    for wrong in ("rat", "lineal", "bleurt", "character", "heads"):
        assert wrong in str(error.value)
    assert not (tmp_path / "run").exists()


def test_one_embedding_for_two_alphabets_is_refused(pairs, tmp_path):
    with pytest.raises(ConfigError, match=r"tokenizer\.joint = true or model\.share = false"):
        train(tiny.configuration(pairs, "model.share=true"), tmp_path / "run")


def test_36_a_second_training_in_one_folder_is_refused_and_changes_nothing(pairs, tmp_path):
    refused: list[WriteError] = []
    config = tiny.configuration(pairs, "training.steps=4")

    def second() -> None:
        before = tiny.snapshot(tmp_path / "run")
        with pytest.raises(WriteError) as error:
            train(tiny.configuration(pairs, "training.steps=99"), tmp_path / "run")
        refused.append(error.value)
        assert tiny.snapshot(tmp_path / "run") == before

    with tiny.hooked(tiny.at("train:step", 2, second)):
        assert train(config, tmp_path / "run").step == 4
    assert f"process {os.getpid()} " in str(refused[0])
    assert refused[0].exit_code == 4


# Signals --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("point", ["prepare:tokenizer", "prepare:train", "train:step", "validating"])
def test_20_sigterm_leaves_soon_and_resumable(pairs, tmp_path, monkeypatch, point):
    """A signal to a child process in preparation, training or validation does not change the result."""
    config = tiny.configuration(pairs)
    train(config, tmp_path / "whole")
    validate = Validator._losses
    monkeypatch.setattr(Validator, "_losses", lambda *given: files.reached("validating") or validate(*given))

    def ends_by_signal() -> None:
        with tiny.hooked(tiny.at(point, 1, lambda: os.kill(os.getpid(), signal.SIGTERM))):
            try:
                train(config, tmp_path / "cut")
            except Interrupted as left:
                os._exit(left.exit_code)

    began = time.monotonic()
    assert tiny.in_child(ends_by_signal) == 143
    assert time.monotonic() - began < 5
    train(config, tmp_path / "cut")
    assert tiny.digest(tmp_path / "cut") == tiny.digest(tmp_path / "whole")
    assert [r["step"] for r in tiny.validations(tmp_path / "cut")] == [10, 20, 30]


def test_20_an_interruption_in_a_validation_repeats_it_and_nothing_else(pairs, tmp_path, monkeypatch):
    interrupt, calls = Interrupt(), []
    original = Validator.validate

    def validate(self, model, check):
        calls.append(1)
        if len(calls) == 2:
            interrupt.number = signal.SIGINT
        return original(self, model, check)

    monkeypatch.setattr(Validator, "validate", validate)
    with tiny.batches_seen() as seen:
        with pytest.raises(Interrupted):
            train(tiny.configuration(pairs), tmp_path / "run", interrupt=interrupt)
        assert len(seen) == 20
        train(tiny.configuration(pairs), tmp_path / "run")
    assert len(seen) == 30
    assert len(calls) == 4


# Numbers that are not finite --------------------------------------------------------------------------


def spoil(monkeypatch, steps, value: float = math.nan) -> None:
    """Multiply the losses of these training steps, and so their gradients, by `value`."""
    original, step = EncoderDecoder.loss, 0

    def loss(self, batch, *, smoothing=0.0):
        nonlocal step
        found = original(self, batch, smoothing=smoothing)
        if not self.training:
            return found
        step += 1
        return Loss(found.total * value, found.count) if step in steps else found

    monkeypatch.setattr(EncoderDecoder, "loss", loss)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_22_45_one_bad_step_is_skipped_counted_and_named(pairs, tmp_path, monkeypatch, value):
    spoil(monkeypatch, {4}, value)
    progress = train(tiny.configuration(pairs), tmp_path / "run")
    assert progress.bad == (4,)
    (record,) = [record for record in Run.open(tmp_path / "run").records() if "skipped" in record]
    assert record["step"] == 4
    places = record["skipped"]["examples"]
    assert places
    assert all(place.startswith(f"{pairs}:") for place in places)
    assert all(math.isfinite(loss) for step, loss, *_ in tiny.step_records(tmp_path / "run") if step != 4)


def test_22_a_skipped_step_changes_no_tensor(pairs, tmp_path, monkeypatch):
    config = tiny.configuration(pairs, "training.steps=5", "training.validate_every=100")
    states: dict[int, dict[str, torch.Tensor]] = {}
    original = trainer.Trainer._step

    def step(self, batches, after):
        original(self, batches, after)
        tensors = {f"{p} {n}": t.clone() for p, group in self._tensors().items() for n, t in group.items()}
        states[self.progress.step] = tensors

    monkeypatch.setattr(trainer.Trainer, "_step", step)
    spoil(monkeypatch, {4})
    train(config, tmp_path / "run")
    assert all(torch.equal(tensor, states[3][name]) for name, tensor in states[4].items())
    assert not all(torch.equal(tensor, states[3][name]) for name, tensor in states[5].items())


def test_22_ten_bad_steps_in_a_row_end_it_with_the_last_good_checkpoint(pairs, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        spoil(patch, range(11, 32))
        with pytest.raises(DivergedError, match="step_00000010") as error:
            train(tiny.configuration(pairs), tmp_path / "run")
    assert error.value.exit_code == 5
    assert "step 20" in str(error.value)
    run = Run.open(tmp_path / "run")
    assert run.checkpoints().steps() == [0, 10]
    assert sum("skipped" in record for record in run.records()) == 10
    assert train(tiny.configuration(pairs), tmp_path / "run").step == 30


def test_22_nine_bad_steps_in_a_row_are_survived(pairs, tmp_path, monkeypatch):
    spoil(monkeypatch, range(13, 22))
    assert train(tiny.configuration(pairs), tmp_path / "run").bad == tuple(range(13, 22))


def test_22_too_many_bad_steps_end_it_also_when_they_are_scattered(pairs, tmp_path, monkeypatch):
    spoil(monkeypatch, range(2, 40, 2))
    with pytest.raises(DivergedError, match="11 of the last 1000"):
        train(tiny.configuration(pairs), tmp_path / "run")


def test_22_weights_that_are_not_finite_are_never_saved(pairs, tmp_path, monkeypatch):
    """Gradients are finite, but an update makes a weight infinite: the save refuses it."""
    original = trainer.Trainer._step

    def step(self, batches, after):
        original(self, batches, after)
        if self.progress.step == 15:
            with torch.no_grad():
                next(self.model.parameters()).view(-1)[0] = math.inf

    monkeypatch.setattr(trainer.Trainer, "_step", step)
    with pytest.raises(DivergedError):
        train(tiny.configuration(pairs, "training.save_seconds=1e-9"), tmp_path / "run")
    assert max(Run.open(tmp_path / "run").checkpoints().steps()) == 14
    assert not (tmp_path / "run" / "model.safetensors").exists()


def test_51_a_metric_that_is_not_finite_is_never_the_best(pairs, tmp_path, monkeypatch):
    judge(monkeypatch, math.nan, 2.0, math.nan)
    progress = train(tiny.configuration(pairs), tmp_path / "run")
    assert (progress.best, progress.best_step, progress.worse) == (2.0, 20, 1)
    assert Run.open(tmp_path / "run").weights_metadata()["step"] == "20"


def test_51_without_a_finite_metric_the_last_weights_are_exported(pairs, tmp_path, monkeypatch):
    judge(monkeypatch, math.nan, math.nan, math.nan)
    progress = train(tiny.configuration(pairs), tmp_path / "run")
    assert (progress.best, progress.kept_step) == (None, 30)
    assert Run.open(tmp_path / "run").weights_metadata()["step"] == "30"


# Batches ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("accumulate", [2, 3, 50])
def test_24_accumulated_parts_make_the_same_step(pairs, tmp_path, accumulate):
    """Also with more micro-batches than rows, and with a number that divides no batch."""
    plain = ("model.dropout=0", "training.epochs=1", "training.optimizer.rate=0.001")
    train(tiny.configuration(pairs, *plain), tmp_path / "one")
    train(tiny.configuration(pairs, *plain, f"training.accumulate={accumulate}"), tmp_path / "parts")
    one, parts = tiny.step_records(tmp_path / "one"), tiny.step_records(tmp_path / "parts")
    assert len(one) == len(parts) == 10
    # weights are not compared: some gradients are rounding errors, which Adam makes large
    for (step, loss, rate, norm), (step_, loss_, rate_, norm_) in zip(one, parts, strict=True):
        assert (step, rate) == (step_, rate_)
        assert (loss_, norm_) == pytest.approx((loss, norm), rel=1e-4)


def test_24_the_first_gradient_of_parts_is_that_of_the_whole(pairs, tmp_path):
    """To 1e-6, before the optimizer amplifies a difference."""
    norms = []
    for accumulate in (1, 3):
        changes = ("model.dropout=0", "training.steps=1", f"training.accumulate={accumulate}")
        train(tiny.configuration(pairs, *changes), tmp_path / str(accumulate))
        norms.append(tiny.step_records(tmp_path / str(accumulate))[0][3])
    assert norms[1] == pytest.approx(norms[0], rel=1e-6)


def test_an_extra_term_is_trained_and_not_reported(pairs, tmp_path, monkeypatch):
    """As the balance loss of a mixture of experts."""
    original, changes = EncoderDecoder.loss, ("training.steps=1", "training.clip=1000000")
    train(tiny.configuration(pairs, *changes), tmp_path / "plain")

    def loss(self, batch, *, smoothing=0.0):
        found = original(self, batch, smoothing=smoothing)
        return Loss(found.total, found.count, 9 * found.total)

    monkeypatch.setattr(EncoderDecoder, "loss", loss)
    train(tiny.configuration(pairs, *changes), tmp_path / "extra")
    (_, plain, _, norm), (_, same, _, larger) = (
        tiny.step_records(tmp_path / name)[0] for name in ("plain", "extra")
    )
    assert same == plain
    assert larger == pytest.approx(10 * norm, rel=1e-5)


def test_24_a_resume_with_accumulation_is_exact(pairs, tmp_path):
    config = tiny.configuration(pairs, "training.accumulate=3", "training.epochs=1", "model.dropout=0.3")
    train(config, tmp_path / "whole")
    cut(config, tmp_path / "cut", 4, 5)
    assert tiny.digest(tmp_path / "cut") == tiny.digest(tmp_path / "whole")


def test_46_batches_of_one_row_and_a_single_pair(tmp_path):
    path = tiny.write_pairs(tmp_path / "pairs.tsv", [("abc", "cba")])
    valid = tiny.write_pairs(tmp_path / "valid.tsv", [("ab", "ba")])
    config = tiny.configuration(
        path, f"data.valid={[str(valid)]}", "training.tokens=1", "training.accumulate=2", "training.steps=3"
    )
    progress = train(config, tmp_path / "run")
    assert (progress.step, progress.bad) == (3, ())
    assert math.isfinite(progress.best)


def test_46_a_last_batch_of_one_row_has_a_finite_loss(tmp_path):
    words = ["ab"] * 20 + ["abcdef" * 6]
    path = tiny.write_pairs(tmp_path / "pairs.tsv", [(word, word) for word in words])
    valid = tiny.write_pairs(tmp_path / "valid.tsv", [("ab", "ba")])
    config = tiny.configuration(path, f"data.valid={[str(valid)]}", "training.tokens=30", "training.epochs=2")
    with tiny.batches_seen() as seen:
        train(config, tmp_path / "run")
    assert min(len(examples) for _, examples in seen) == 1
    assert all(math.isfinite(loss) for _, loss, *_ in tiny.step_records(tmp_path / "run"))


@pytest.mark.parametrize("name", OPTIMIZERS.names())
def test_45_every_optimizer_learns_the_tiny_task(pairs, tmp_path, name):
    config = tiny.configuration(
        pairs,
        "training.steps=60",
        f"training.optimizer.kind={name}",
        "training.optimizer.rate=0.01",
        "training.schedule.warmup=10",
        "training.validate_every=30",
    )
    train(config, tmp_path / "run")
    losses = [loss for _, loss, *_ in tiny.step_records(tmp_path / "run")]
    assert sum(losses[-10:]) / 10 < 0.85 * losses[0]


# Observers --------------------------------------------------------------------------------------------


class Watching:
    """An observer that fails with an error if it has one."""

    def __init__(self, error: Exception | None = None):
        self.error, self.steps, self.rewound = error, [], []

    def validated(self, model, validation, step) -> None:
        self.steps.append(step)
        if self.error is not None:
            raise self.error

    def rewind(self, step) -> None:
        self.rewound.append(step)


@pytest.mark.parametrize("error", [WriteError("the disk is full"), ZeroDivisionError("a bug")])
def test_an_observer_that_fails_stops_no_training_and_is_reported(pairs, tmp_path, error):
    failing, second, reported = Watching(error), Watching(), []
    training_run.train(
        tiny.configuration(pairs),
        tmp_path / "run",
        observers=lambda config, run, prepared: [failing, second],
        listener=lambda report: reported.extend(report.findings),
    )
    assert failing.steps == second.steps == [10, 20, 30]
    assert second.rewound == [0]
    assert reported.count(f"no trace was recorded: {error}") == 3
    records = [record for record in Run.open(tmp_path / "run").records() if "untraced" in record]
    assert [record["untraced"] for record in records] == [str(error)] * 3
    bug = isinstance(error, ZeroDivisionError)  # a bug is logged with its traceback
    assert all(("raise self.error" in record.get("traceback", "")) == bug for record in records)


# Full disks ------------------------------------------------------------------------------------


class Full:
    """A disk that is full while `on` is true."""

    def __init__(self) -> None:
        self.on = False

    def __call__(self, point: str) -> None:
        if self.on and point.startswith("save:model") and point.endswith("writing"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_42_a_full_disk_stops_no_training_and_later_saves_work(pairs, tmp_path):
    """The disk is full when the second of three validations is saved."""
    full, reported = Full(), []

    def listener(report) -> None:
        reported.extend(report.findings)
        full.on = report.validation is not None and report.step == 20
        if full.on:
            assert Run.open(tmp_path / "run").checkpoints().steps() == [0, 10]

    with tiny.hooked(full):
        progress = train(tiny.configuration(pairs), tmp_path / "run", listener=listener)
    assert progress.finished
    assert any("checkpoint not saved (1 in a row)" in line for line in reported)
    run = Run.open(tmp_path / "run")
    assert any("save_failed" in record for record in run.records())
    assert run.checkpoints().steps() == [30]
    assert tiny.digest(tmp_path / "run")


def test_42_a_last_checkpoint_that_cannot_be_saved_is_an_error_and_a_rerun_saves_it(pairs, tmp_path):
    full = Full()
    config = tiny.configuration(pairs)
    train(config, tmp_path / "whole")

    def listener(report) -> None:
        full.on = full.on or (report.validation is not None and report.step == 30)

    with tiny.hooked(full), pytest.raises(WriteError, match="the last checkpoint was not saved") as error:
        train(config, tmp_path / "run", listener=listener)
    assert error.value.exit_code == 4
    train(config, tmp_path / "run")
    assert tiny.digest(tmp_path / "run") == tiny.digest(tmp_path / "whole")


def test_06_a_disk_that_cannot_be_written_is_found_before_the_first_step(pairs, tmp_path):
    full = Full()
    full.on = True
    with tiny.hooked(full), tiny.batches_seen() as seen, pytest.raises(WriteError, match="did not start"):
        train(tiny.configuration(pairs), tmp_path / "run")
    assert seen == []


def test_retries_come_at_longer_and_longer_intervals(pairs, tmp_path):
    """With a save after every step, a full disk is not tried at every step."""
    full = Full()
    tried = []

    def listener(report) -> None:
        full.on = 3 <= report.step < 28
        tried.extend(line for line in report.findings if "not saved" in line)

    config = tiny.configuration(pairs, "training.save_seconds=0.01", *ONLY_STEPS)
    with tiny.hooked(full):
        assert train(config, tmp_path / "run", listener=listener).finished
    assert 1 <= len(tried) < 25


def test_the_first_weights_are_validated_if_wanted(tmp_path):
    """A training that only does harm keeps what it started with, also if it was killed after that."""
    pairs = tiny.reversals(tmp_path / "pairs.tsv")
    harm = ("training.optimizer.rate=50", "training.average=0", "training.steps=20")
    config = tiny.configuration(pairs, "training.validate_start=true", *harm)
    progress = tiny.train(config, tmp_path / "whole")
    assert [record["step"] for record in tiny.validations(tmp_path / "whole")][:2] == [0, 10]
    assert progress.kept_step == 0
    assert tiny.interrupted(config, tmp_path / "parts", "train:validated", 1) == 143
    tiny.train(config, tmp_path / "parts")
    assert tiny.digest(tmp_path / "parts") == tiny.digest(tmp_path / "whole")
