"""English and French sentences of a small grammar, with their alignment. Adjectives move, a negation takes
two words, and `big` has three translations, so that the model is uncertain there.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import NamedTuple

Link = tuple[int, int]  # a position in the source, a position in the target


class Word(NamedTuple):
    """A target word and the positions of its source words, relative to the start of the phrase."""

    text: str
    of: tuple[int, ...]


class Phrase(NamedTuple):
    source: tuple[str, ...]
    target: tuple[Word, ...]


class Sentence(NamedTuple):
    source: str
    target: str
    links: frozenset[Link]


NOUNS = {
    "dog": ("chien", 0),
    "cat": ("chat", 0),
    "garden": ("jardin", 0),
    "bread": ("pain", 0),
    "house": ("maison", 1),
    "table": ("table", 1),
    "door": ("porte", 1),
    "mouse": ("souris", 1),
}
DETERMINERS = {"the": ("le", "la"), "a": ("un", "une"), "this": ("ce", "cette")}
BEFORE = {"small": ("petit", "petite"), "old": ("vieux", "vieille"), "pretty": ("joli", "jolie")}
BEHIND = {"white": ("blanc", "blanche"), "black": ("noir", "noire"), "green": ("vert", "verte")}
BIG = (("grand", "grande"), ("énorme", "énorme"), ("géant", "géante"))
TRAP = 0.55  # how often `big` follows the noun, as one of two words: greedy search takes this path and loses
VERBS = {"see": "voit", "want": "veut", "find": "trouve", "sleep": "dort", "like": "préfère"}
PLACES = {"under": "sous", "behind": "derrière", "with": "avec"}


def sentences(count: int, seed: int) -> list[Sentence]:
    """Return `count` distinct sentences."""
    random = Random(seed)
    found: dict[str, Sentence] = {}
    while len(found) < count:
        one = sentence(random)
        found.setdefault(one.source, one)
    return list(found.values())


def sentence(random: Random) -> Sentence:
    """Return a subject and a verb, with an optional object and an optional place."""
    name = random.choice(list(VERBS))
    phrases = [noun_phrase(random), verb_phrase(name, random)]
    if name != "sleep":
        phrases.append(noun_phrase(random))
    if random.random() < 0.3:
        where = random.choice(list(PLACES))
        phrases += [Phrase((where,), (Word(PLACES[where], (0,)),)), noun_phrase(random)]
    return joined(phrases)


def noun_phrase(random: Random) -> Phrase:
    """Return a determiner, at most one adjective of each kind, and a noun: *the small white house*."""
    noun, (french, gender) = random.choice(list(NOUNS.items()))
    determiner = random.choice(list(DETERMINERS))
    size = random.choice([None, None, "big", "big", *BEFORE])
    colour = random.choice([None, *BEHIND]) if random.random() < 0.6 else None
    trap = size == "big" and colour is None and random.random() < TRAP
    source = [word for word in (determiner, size, colour, noun) if word]
    target = [Word(DETERMINERS[determiner][gender], (0,)), Word(french, (len(source) - 1,))]
    if size:
        forms = BEFORE.get(size) or BIG[random.choice((1, 2)) if trap else 0]
        target.insert(2 if trap else 1, Word(forms[gender], (1,)))
    if colour:
        target.append(Word(BEHIND[colour][gender], (len(source) - 2,)))
    return Phrase(tuple(source), tuple(target))


def verb_phrase(name: str, random: Random) -> Phrase:
    """Return *sees*, or *does not see*: *ne voit pas*."""
    if random.random() < 0.6:
        return Phrase((name + "s",), (Word(VERBS[name], (0,)),))
    return Phrase(("does", "not", name), (Word("ne", (1,)), Word(VERBS[name], (2,)), Word("pas", (1,))))


def joined(phrases: Sequence[Phrase]) -> Sentence:
    source, target, links = list[str](), list[str](), set[Link]()
    for phrase in phrases:
        first = len(source)
        source += phrase.source
        for word in phrase.target:
            links |= {(first + place, len(target)) for place in word.of}
            target.append(word.text)
    return Sentence(" ".join(source), " ".join(target), frozenset(links))
