"""A configuration for texts with labels, chosen by their number and lengths, with reasons.

Two texts per label are compared token by token, so their encoder is a Transformer: detectors of n-grams see
each text by itself. So is the encoder of a request with options that only a Transformer has.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from seqwright.config import DataConfig
from seqwright.config.presets import as_table
from seqwright.config.recipe import ENDS, Choice, Recipe, times
from seqwright.config.registry import parse as parse_spec
from seqwright.data.checks.statistics import LengthHistogram, TextColumn
from seqwright.data.readers.labelled import pair_of
from seqwright.data.survey import Survey
from seqwright.data.text_display import percent, pluralize, shorten_list
from seqwright.errors import InputError
from seqwright.recipes.bases.held_out import held_out, share_of

# presets for running text, for little of it, and for single words and pairs of texts
NGRAMS, FEW, LETTERS = "ngram-classifier", "kim2014", "tiny-classifier"
LITTLE = 500_000  # words
PIECES, MOST_PIECES = 1.3, 2.0  # tokens per word, on average and at most in a long text
READ = 0.95  # share of the texts that are read whole, at least
LONGEST, QUADRATIC = 1000, 400  # tokens that are read of a text, at most, by n-grams and by other models
SPEED = {NGRAMS: 50_000, FEW: 25_000, LETTERS: 25_000}  # tokens per second on two cores, roughly
PASSES, STEPS = 3, 2_000  # n-grams of much text overfit after so many epochs, if those are as many steps
ENOUGH = 15  # epochs after which n-grams overfit without more regularisation
SMALL = 2_000_000  # words below which there is time to segment the texts again in each epoch
DROPOUT = ((3, 0.2), (10, 0.3), (math.inf, 0.5))  # of other presets, below so many epochs
SUBWORDS = (
    (200_000, 2_000),
    (2_000_000, 8_000),
    (50_000_000, 16_000),
    (math.inf, 32_000),
)  # below so many words
TEXTS = 64  # texts of a batch, within the limits of its tokens
TOKENS = (1024, 8192)
UNEVEN = 10  # times as frequent as the rarest label from which on labels are weighted
BALANCE = 0.5
BY_CHARACTER = ("characters", "letters", "bytes")  # tokenizers
WORDS = 2  # words of a text on average, below which it is read by characters
CORES = 2
HELD_OUT = 2500
DECODED = 4000  # texts that a validation labels


def choose(survey: Survey, requested: Mapping[str, Any]) -> Recipe:
    """Return a recipe for the files of a survey; what is requested is not chosen."""
    if len(survey.labels) < 2:
        (only,) = survey.labels or [""]
        raise InputError(
            f"{survey.name}: every text has the label {only!r}; a classifier needs at least two labels"
        )
    texts, column = survey.report.examples, survey.report.columns["text"]
    paired = pair_of(DataConfig(columns=survey.columns)) is not None
    words = _by_words(column, requested.get("tokenizer", {}))
    ending = requested.get("training", {})
    time = [] if ending.keys() & set(ENDS) else [_time(texts)]
    ends = {**(time[0].table["training"] if time else {}), **ending}
    count = round(column.words.mean * column.words.total())
    usual = (FEW if count < LITTLE else NGRAMS) if words and not paired else LETTERS
    preset, needed = _preset(as_table(requested.get("model", {})), usual)
    length = _length(column, words, preset)
    mean = min(
        PIECES * column.words.mean if words else column.characters.mean, length.table["data"]["max_length"]
    )
    tokens = min(max(2 ** round(math.log2(TEXTS * (mean + 1))), TOKENS[0]), TOKENS[1])
    limit = _limit(preset, ends, STEPS * tokens / (texts * (mean + 1)))
    most = limit[0].table["training"]["most_epochs"] if limit else math.inf
    epochs = min(_epochs(preset, ends, texts * (mean + 1)), most)
    longer = preset == NGRAMS and epochs > ENOUGH
    choices = [
        _tokenizer(count, words, preset, longer),
        length,
        *_sentences(preset, requested),
        _model(survey, preset, epochs, paired, needed),
        _batch(preset, longer, tokens, mean + 1),
        *time,
        *limit,
        _validation(ends, preset),
    ]
    return Recipe((*choices, *held_out(requested, share_of(texts, HELD_OUT), "texts of each label")))


def _by_words(column: TextColumn, tokenizer: Mapping[str, Any]) -> bool:
    """Whether the texts are read by words and pieces of them: as requested, or if they have several words."""
    if "source" in tokenizer:
        return parse_spec("tokenizer", tokenizer["source"])[0] not in BY_CHARACTER
    return column.words.mean >= WORDS


def _preset(model: Mapping[str, Any], usual: str) -> tuple[str, list[str]]:
    """Return the requested preset; without one the usual one for the texts, or that for an encoder of another
    kind or for options that only a Transformer has. And the names of these options.
    """
    from seqwright.models.building.scaling import preset_options

    encoder = model.get("encoder", {})
    encoder = {"kind": encoder} if isinstance(encoder, str) else encoder
    if "preset" in model:
        return model["preset"], []
    if usual == LETTERS or encoder.get("kind", "ngrams") != "ngrams":
        return LETTERS, []
    only = preset_options(LETTERS) - preset_options(usual)
    inside = [] if "kind" in encoder else [f"model.encoder.{key}" for key in encoder if key in only]
    needed = [f"model.{key}" for key in model if key in only] + inside
    return (LETTERS, needed) if needed else (usual, [])


def _tokenizer(count: int, words: bool, preset: str, longer: bool) -> Choice:
    if not words:
        return Choice("characters", {"tokenizer": {"source": "characters"}}, "the texts are single words")
    if preset == FEW:
        reason = f"{pluralize(count, 'word')} are too few to learn what pieces of words mean"
        return Choice("words", {"tokenizer": {"source": "words"}}, reason)
    size = next(size for limit, size in SUBWORDS if count < limit)
    table: dict[str, Any] = {"tokenizer": {"source": {"kind": "bpe", "max_size": size}}}
    reason = f"running text; each piece must occur often enough in {pluralize(count, 'word')} to be learned"
    if not longer or count >= SMALL:
        return Choice(f"BPE with {size:,} pieces", table, reason)
    table["tokenizer"]["sampled"] = True
    reason += "; words are segmented differently in each epoch (BPE dropout), against overfitting"
    return Choice(f"BPE with {size:,} pieces, sampled", table, reason)


def _length(column: TextColumn, words: bool, preset: str) -> Choice:
    """Read whole texts unless a few are far longer than the others or all are long."""
    lengths, pieces = (column.words, MOST_PIECES) if words else (column.characters, 1.0)
    most = LONGEST if preset in (NGRAMS, FEW) else QUADRATIC
    usual = math.ceil(pieces * _quantile(lengths, READ)) + 2
    longest = max(min(2 * usual, most), 16)
    reason = (
        "longer texts are cut, to save time"
        if usual > longest
        else f"more than {percent(READ)} of the texts fit"
    )
    return Choice(f"the first {longest} tokens of a text", {"data": {"max_length": longest}}, reason)


def _sentences(preset: str, requested: Mapping[str, Any]) -> list[Choice]:
    """Return how a text is cut for an encoder that reads sentences."""
    from seqwright.models.building import reads_sentences

    if not reads_sentences({"preset": preset, **as_table(requested.get("model", {}))}):
        return []
    data = DataConfig(**requested.get("data", {}))
    what = f"in at most {data.max_sentences} sentences of at most {data.max_sentence_length} tokens"
    reason = "the encoder reads sentences; longer ones are cut into several, further ones are not read"
    return [Choice(what, {}, reason)]


def _quantile(lengths: LengthHistogram, share: float) -> int:
    """Return the length that this share of the texts does not exceed."""
    seen, total = 0, lengths.total()
    for length, count in sorted(lengths.items()):
        seen += count
        if seen >= share * total:
            return length
    return 0


def _epochs(preset: str, ends: Mapping[str, Any], tokens: float) -> float:
    """Return how often each text is seen, roughly, for data of so many tokens."""
    if ends.get("epochs"):
        return float(ends["epochs"])
    steps = ends.get("steps")
    seen = (
        steps * ends.get("tokens", 4096)
        if steps
        else ends["minutes"] * 60 * SPEED.get(preset, SPEED[LETTERS])
    )
    return seen / tokens


def _model(survey: Survey, preset: str, epochs: float, paired: bool, needed: Sequence[str]) -> Choice:
    """Choose the model by accuracy on a fifth of the training texts of TREC, one split and seed: words with
    kim2014 87.7 %, pieces with ngram-classifier 84.2 %, logistic regression on bigrams 85.6 %.
    """
    table: dict[str, Any] = {"preset": preset}
    if preset == NGRAMS:
        what = f"model {preset}"
        reason = "a few words in a row decide most labels; attention shows which, and long texts stay cheap"
    else:
        table["dropout"] = next(dropout for most, dropout in DROPOUT if epochs < most)
        what = f"model {preset}, dropout {table['dropout']}"
        reason = f"each text is seen {times(epochs)}"
        if paired and preset == LETTERS:
            reason = f"attention compares the two texts; {reason}"
        if needed:
            reason = f"detectors of n-grams have no {shorten_list(needed)}; {reason}"
        if preset == FEW:
            reason = f"a few words in a row decide most labels; {reason}"
    counts = survey.labels.values()
    most, least = max(counts), min(counts)
    if most >= UNEVEN * least:
        table["head"] = {"balance": BALANCE}
        what += f", classes weighted by their frequency to the power of −{BALANCE}"
        reason += f"; the most frequent label has {most:,} texts, the rarest {least:,}"
    return Choice(what, {"model": table}, reason)


def _batch(preset: str, longer: bool, tokens: int, length: float) -> Choice:
    """Choose batches and optimizer. The embeddings of n-grams start near zero: a high rate overfits them.

    With little text a low rate and a strong decay delay overfitting, and the weights of the lowest validation
    loss are kept: of 40 epochs on TREC those of about the sixth.
    """
    reason = (
        f"about {pluralize(round(tokens / length), 'text')}; on small data more steps beat larger batches"
    )
    optimizer = {"kind": "adamw", "rate": 2e-3, "embedding_rate": 2.0, "decay": 0.05}
    table = {"tokens": tokens, "accumulate": CORES, "optimizer": optimizer, "smoothing": 0.0}
    if preset == NGRAMS:
        optimizer["embedding_rate"] = 0.2
        table |= {"smoothing": 0.1, "average": 0.99}
    if preset == FEW:
        optimizer["rate"] = 5e-4
        table["average"] = 0.99
    rate = optimizer["rate"]
    what = f"{tokens:,} tokens per batch, in {CORES} parts for up to {CORES} cores, rate {rate:g}"
    if longer or preset == FEW:
        optimizer["decay"] = 1.0
        what, reason = f"{what}, weight decay 1", f"{reason}; the decay is against overfitting"
    return Choice(what, {"training": table}, reason)


def _time(texts: int) -> Choice:
    minutes = 3.0 if texts < 10_000 else 10.0
    reason = "usual for so many texts; --minutes changes it"
    return Choice(f"{minutes:g} minutes of training", {"training": {"minutes": minutes}}, reason)


def _limit(preset: str, ends: Mapping[str, Any], epochs: float) -> list[Choice]:
    """End the training of n-grams before the time is over, with `epochs` if they are more than usual.

    On 20,000 and 5,000 of the training texts of IMDB, seed 1, 2.6 epochs reach 89.5 % (validation loss 0.242)
    where 4.3 epochs of the whole file reached 88.8 %, with the lowest loss at 40 % of them.
    """
    if preset != NGRAMS or ends.get("minutes") is None:
        return []
    most = max(PASSES, math.ceil(epochs))
    reason = "further passes would overfit; the rate falls until then"
    return [Choice(f"{most} epochs at most", {"training": {"most_epochs": most}}, reason)]


def _validation(ends: Mapping[str, Any], preset: str) -> Choice:
    if preset == FEW:
        validations = min(max(round(14 * ends.get("minutes", 3)), 8), 40)
        table = {"training": {"metric": "loss", "validations": validations, "decode": DECODED}}
        reason = "few texts are memorised soon, and the loss shows it first"
        return Choice(f"about {validations} validations, by the loss", table, reason)
    validations = min(max(round(3 * ends.get("minutes", 3)), 5), 20)
    table = {"training": {"metric": "accuracy", "validations": validations, "decode": DECODED}}
    return Choice(f"about {validations} validations, by accuracy", table, "a label is right or wrong")
