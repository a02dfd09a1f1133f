"""``make speed``: that its contestants do the same work on the same examples. Nothing here says who is faster."""

import math
import random
import subprocess
import sys

import numpy as np
import pytest
import torch
from support import ROOT
from torch.utils.flop_counter import FlopCounterMode

import tasks
from bench.speed import plain, timing
from bench.speed.flops import products, step_flops
from bench.speed.generation import answers, exact_match, left_padded
from bench.speed.memory import peak_mb
from bench.speed.ours import Trainee, training_batch
from bench.speed.plan import Budget
from bench.speed.record import PUBLISHED
from bench.speed.rivals import IGNORED, Rival, Training, padded, rivals
from bench.suite import load_suite
from bench.train import learning_rate
from tasks import BOS, EOS, PAD, SEP, Examples

torch.set_num_threads(1)

SMALL = load_suite("small")
TASKS = [spec.task for spec in SMALL.tasks]


@pytest.fixture(scope="module")
def models() -> dict[tuple[str, str], Rival]:
    """Every rival at the shapes of copying, by encoding and name."""
    task = SMALL.make_task("copying")
    return {(r.encoding, r.who): r for r in rivals(SMALL.model, len(task.vocabulary), task.tokens(task.longest))}


# --- the same work


@pytest.mark.parametrize("task", TASKS)
def test_rivals_predict_the_tokens_that_we_predict(task):
    examples = training_batch(SMALL, task, 16, 3)
    ids, labels = padded(examples)
    for row, (start, size) in enumerate(zip(examples.answer_start, examples.sizes, strict=True)):
        whole = examples.tokens[row, :size].tolist()
        assert ids[row, : size - 1].tolist() == whole[:-1]
        counted = labels[row] != IGNORED
        assert labels[row][counted].tolist() == whole[start:] and whole[-1] == EOS
        assert np.flatnonzero(counted.numpy()).tolist() == list(range(start - 1, size - 1))


def copy_weights(ours, library) -> None:
    """Our NoPE or ALiBi model into x-transformers', which says in its norms how far the gain is from 1."""
    library.token_emb.emb.weight.data.copy_(ours.embedding.weight)
    library.to_logits.weight.data.copy_(ours.head.weight)
    library.attn_layers.final_norm.gamma.data.copy_(ours.norm.weight - 1)
    for number, block in enumerate(ours.blocks):
        for half, norm in enumerate((block.attention_norm, block.mlp_norm)):
            library.attn_layers.layers[2 * number + half][0][0].gamma.data.copy_(norm.weight - 1)
        attend, feed = (library.attn_layers.layers[2 * number + half][1] for half in (0, 1))
        for linear, weight in zip((attend.to_q, attend.to_k, attend.to_v), block.qkv.weight.chunk(3), strict=True):
            linear.weight.data.copy_(weight)
        attend.to_out.weight.data.copy_(block.out.weight)
        feed.ff[0][0].weight.data.copy_(block.up.weight)
        feed.ff[2].weight.data.copy_(block.down.weight)


@pytest.mark.parametrize("flash", ["", ", flash"])
@pytest.mark.parametrize("encoding", ["nope", "alibi"])
def test_with_equal_weights_the_loss_of_a_step_is_equal(models, encoding, flash):
    rival = models[encoding, f"x-transformers{flash}"]
    trainee = Trainee(SMALL, "copying", encoding)
    copy_weights(trainee.model, rival.model)
    theirs = Training(rival, trainee.recipe)
    for step in range(3):  # AdamW's first steps go by the sign of the gradient: where that is almost 0 the two part a little
        examples = training_batch(SMALL, "copying", 16, step)
        ours = trainee.step(examples)
        assert ours == pytest.approx(theirs.step(examples), rel=1e-5 if step == 0 else 2e-2)


def test_every_rival_takes_a_step(models):
    recipe, examples = SMALL.recipe_for("copying"), training_batch(SMALL, "copying", 8, 0)
    for rival in models.values():
        training = Training(rival, recipe)
        losses = [training.step(examples) for _ in range(6)]
        assert all(map(math.isfinite, losses)) and losses[-1] < losses[0], rival.who


def test_rivals_have_as_many_parameters(models):
    assert {encoding for encoding, _ in models} == {"nope", "learned", "rope", "alibi", "t5"}
    for (encoding, who), rival in models.items():
        assert rival.parameters == pytest.approx(Trainee(SMALL, "copying", encoding).parameters, rel=0.02), who


def test_rivals_are_what_they_are_called(models):
    for (encoding, who), rival in models.items():
        tables = [table for name, table in rival.model.named_buffers() if name.endswith("rotary_emb.inv_freq")]
        tables += [table for name, table in rival.model.named_buffers() if name.endswith("rotary_pos_emb.inv_freq")]
        assert [len(t) for t in tables] == ([SMALL.model.width // SMALL.model.heads // 2] if encoding == "rope" else []), who
        if who.startswith("x-transformers"):
            assert rival.model.attn_layers.layers[0][1].attend.flash == who.endswith("flash")
        elif who != "MPT":  # which has one way alone
            assert rival.model.config._attn_implementation == "sdpa"


def test_rivals_attend_causally_and_know_order_as_their_encoding_says(models):
    tokens = torch.tensor([[1, 5, 6, 7, 8, 2]])
    swapped, changed = tokens[:, [0, 2, 1, 3, 4, 5]], tokens.clone()
    changed[0, -1] = 9
    for (encoding, who), rival in models.items():
        rival.model.eval()
        with torch.no_grad():
            plain_, other, later = (rival.logits(x)[0] for x in (tokens, swapped, changed))
        torch.testing.assert_close(plain_[:-1], later[:-1], msg=f"{who} looks ahead")
        if encoding != "nope":  # in one layer NoPE's last token would not notice; in three it does, a little
            assert not torch.allclose(plain_[-1], other[-1], atol=1e-5), who


def test_our_step_is_that_of_the_training_loop():
    by_hand, loop = (Trainee(SMALL, "parity", "t5") for _ in range(2))
    loop.loop(3)
    recipe = by_hand.recipe.model_copy(update={"steps": 3})
    for step in range(3):
        for group in by_hand.optimizer.param_groups:
            group["lr"] = learning_rate(recipe, step)
        by_hand.step(training_batch(SMALL, "parity", recipe.batch, step))
    for ours, its in zip(by_hand.model.parameters(), loop.model.parameters(), strict=True):
        assert torch.equal(ours, its)


# --- the machine's limit


def test_flops_are_those_that_torch_counts(models):
    model, spec, symbols = models["learned", "GPT-2"].model, SMALL.model, len(SMALL.make_task("copying").vocabulary)
    model.set_attn_implementation("eager")
    try:
        sizes, answers = [5, 9, 14], [2, 4, 1]
        with FlopCounterMode(display=False) as counter:
            for size, count in zip(sizes, answers, strict=True):
                hidden = model.transformer(torch.zeros(1, size, dtype=torch.long), use_cache=False).last_hidden_state
                model.lm_head(hidden[:, -count:]).sum().backward()
    finally:
        model.set_attn_implementation("sdpa")
    assert step_flops(spec, symbols, sizes, sum(answers)) == counter.get_total_flops()


def test_flops_without_the_rows_that_the_last_layer_need_not_go_on_with():
    spec = SMALL.model
    saved = step_flops(spec, 12, [10, 20], 7) - step_flops(spec, 12, [10, 20], 7, last_rows=7)
    assert saved == 3 * (30 - 7) * 2 * (64 * 64 + 2 * 64 * 256)


def test_products_are_all_of_a_step():
    spec = SMALL.model
    found = products(spec, 12, rows=40, answers=7)
    attention = 3 * spec.layers * 4 * 40**2 * spec.width
    assert sum(p.flops * p.count for p in found) == step_flops(spec, 12, [40], 7) - attention
    for product in found:
        product.run()
        torch.testing.assert_close(product.out, product.a @ product.b)
    assert found[0].rate(2.0) == found[0].flops * found[0].repeats / 2e9


# --- turns


def test_turns_are_shared_fairly():
    seen: list[tuple[str, int]] = []
    runs = {name: (lambda given, name=name: seen.append((name, given))) for name in "abc"}
    times = timing.interleave(runs, lambda number: 10 + number, Budget(0, 4), warm=-1)
    assert seen[:3] == [("a", -1), ("b", -1), ("c", -1)]
    assert [name for name, _ in seen[3:]] == list("abcbcacababc")
    assert [given for _, given in seen[3:]] == [10] * 3 + [11] * 3 + [12] * 3 + [13] * 3
    assert {name: len(t) for name, t in times.items()} == {"a": 4, "b": 4, "c": 4}


# --- evaluation by generate()


def random_prompts(sizes: list[int], count: int) -> Examples:
    """Prompts of some sizes with room for an answer of ``count`` tokens."""
    draw = np.random.default_rng(0)
    tokens = np.full((len(sizes), max(sizes) + count), PAD)
    for row, size in enumerate(sizes):
        tokens[row, :size] = [BOS, *draw.integers(4, 12, size - 2), SEP]
    return Examples(tokens, np.array(sizes), np.array(sizes) + count, np.array(sizes))


@torch.no_grad()
def greedy(rival: Rival, examples: Examples, count: int) -> Examples:
    """Each prompt continued by itself, without a cache: the oracle."""
    for row, start in enumerate(examples.answer_start):
        for at in range(start, start + count):
            logits = rival.logits(torch.from_numpy(examples.tokens[row : row + 1, :at]))
            examples.tokens[row, at] = logits[0, -1].argmax()
            if examples.tokens[row, at] == EOS:
                examples.sizes[row] = at + 1
                break
    return examples


@pytest.mark.parametrize("who", [("learned", "GPT-2"), ("rope", "Llama"), ("rope", "GPT-NeoX"), ("alibi", "MPT")])
def test_generate_is_greedy_decoding(models, who):
    rival = models[who]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        for parameter in rival.model.parameters():
            if parameter.ndim == 2:
                torch.nn.init.normal_(parameter, std=0.2)
    rival.model.eval()
    examples = greedy(rival, random_prompts([4, 9, 6, 9], 5), 5)
    assert len(np.unique(examples.tokens[:, 4:])) > 4, "a model that always says the same shows nothing"
    assert exact_match(rival, examples) == 1
    examples.tokens[1, examples.answer_start[1]] ^= 1
    assert exact_match(rival, examples) == 0.75


def test_prompts_stand_at_the_right_and_answers_at_the_left():
    task = SMALL.make_task("addition")
    examples = tasks.test_set(task, 3, 50, 0)
    (prompts, seen), wanted = left_padded(examples), answers(examples)
    assert len(set(examples.answer_start.tolist())) > 1
    for row, (start, size) in enumerate(zip(examples.answer_start, examples.sizes, strict=True)):
        whole = examples.tokens[row, :size].tolist()
        assert prompts[row][seen[row] == 1].tolist() == whole[:start]
        assert prompts[row, -1] == SEP and int(seen[row].sum()) == start
        assert wanted[row][wanted[row] != PAD].tolist() == whole[start:]


# --- plain generators


@pytest.fixture
def check(monkeypatch):
    """The rules of the tasks, as their own tests know them."""
    monkeypatch.syspath_prepend(str(ROOT / "tests" / "tasks"))
    from test_task_answers import check

    return check


@pytest.mark.parametrize("name", TASKS)
def test_plain_generators_draw_valid_examples(name, check):
    task, rng = SMALL.make_task(name), random.Random(0)
    length = SMALL.spec(name).train_length
    examples = plain.sample(task, plain.train_lengths(length, 300, rng), rng)
    assert set(examples.lengths.tolist()) == set(range(1, length + 1))
    check(task, examples)
    check(task, plain.sample(task, [task.longest] * 20, rng))
    assert len({row.tobytes() for row in examples.tokens}) > 20


@pytest.mark.parametrize("name", TASKS)
def test_plain_generators_draw_sizes_as_ours_do(name):
    task, rng = SMALL.make_task(name), random.Random(1)
    ours, theirs = tasks.test_set(task, 4, 2000, 0), plain.sample(task, [4] * 2000, rng)
    for measure in (lambda e: e.sizes, lambda e: e.answer_start):
        assert measure(theirs).mean() == pytest.approx(measure(ours).mean(), abs=0.1)
    tokens = [np.bincount(e.tokens.ravel(), minlength=len(task.vocabulary)) / e.tokens.size for e in (ours, theirs)]
    assert np.abs(tokens[0] - tokens[1]).max() < 0.01


@pytest.mark.parametrize("way", PUBLISHED)
@pytest.mark.parametrize("name", TASKS)
def test_published_ways_give_the_same_examples_as_lists(name, way):
    task = SMALL.make_task(name)
    lengths = plain.train_lengths(SMALL.spec(name).train_length, 50, random.Random(3))
    expected = plain.sample(task, lengths, random.Random(2))
    tokens, labels = plain.WAYS[way](task)(lengths, random.Random(2))
    assert tokens.tolist() == expected.tokens.tolist()
    assert labels.tolist() == np.where(expected.targets, expected.tokens, plain.IGNORED).tolist()
    assert [part.tolist() for part in plain.tensors(expected)] == [tokens.tolist(), labels.tolist()]


@pytest.mark.parametrize("way", plain.WAYS)
def test_plain_generators_name_what_they_lack(way):
    with pytest.raises(tasks.InputError, match="parity scratchpad"):
        plain.WAYS[way](tasks.get("parity", "scratchpad"))([3], random.Random(0))


# --- memory


def test_peak_memory_is_what_this_process_held():
    code = "from bench.speed.memory import peak_mb as p; a = p(); x = b'1' * 2**28; b = p(); del x; print(a, b, p())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    before, holding, after = map(float, done.stdout.split())
    assert holding - before == pytest.approx(256, abs=5) and after == pytest.approx(holding, abs=1)
    assert before < peak_mb() / 2, "what started the process counts for nothing"
