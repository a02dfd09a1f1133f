"""``make speed``: the contestants do the same work on the same examples. No test compares their speed."""

import math
import subprocess
import sys

import numpy as np
import pytest
import torch
from support import ROOT

import tasks
from bench.runs.estimate import step_flops
from bench.speed import timing
from bench.speed.evaluation import answers, generated_match, left_padded
from bench.speed.growth import count_flops, flop_counter
from bench.speed.libraries import LibraryModel, LibraryTraining, library_models, right_padded
from bench.speed.memory import peak_mb
from bench.speed.plan import Budget
from bench.speed.trainee import CPU, Trainee, training_batch
from bench.suites.suite import load_suite
from bench.training.batches import IGNORED, as_batch
from bench.training.train import learning_rate
from tasks import BOS, EOS, PAD, SEP, Examples

torch.set_num_threads(1)

SMALL = load_suite("small")
TASKS = [spec.task for spec in SMALL.tasks]


@pytest.fixture(scope="module")
def models() -> dict[tuple[str, str], LibraryModel]:
    """Every library model at the shapes of copying, by encoding and name."""
    task = SMALL.make_task("copying")
    return {(m.encoding, m.who): m for m in library_models(SMALL.model, len(task.vocabulary), task.tokens(task.longest))}


# --- the same work


@pytest.mark.parametrize("task", TASKS)
def test_libraries_predict_the_tokens_that_we_predict(task):
    examples = training_batch(SMALL, task, 16, 3)
    ids, labels = right_padded(examples)
    for row, (start, size) in enumerate(zip(examples.answer_start, examples.sizes, strict=True)):
        whole = examples.tokens[row, :size].tolist()
        assert ids[row, : size - 1].tolist() == whole[:-1]
        counted = labels[row] != IGNORED
        assert labels[row][counted].tolist() == whole[start:] and whole[-1] == EOS
        assert np.flatnonzero(counted.numpy()).tolist() == list(range(start - 1, size - 1))


def copy_weights(ours, library) -> None:
    """Copy our NoPE or ALiBi model into x-transformers', whose norms store the gain minus 1."""
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
    model = models[encoding, f"x-transformers{flash}"]
    trainee = Trainee(SMALL, "copying", encoding)
    copy_weights(trainee.model, model.module)
    theirs = LibraryTraining(model, trainee.recipe, CPU)
    for step in range(3):  # AdamW's first steps follow the gradient's sign: where it is almost 0 the two differ a little
        examples = training_batch(SMALL, "copying", 16, step)
        ours = trainee.step(examples)
        assert ours == pytest.approx(theirs.step(examples), rel=1e-5 if step == 0 else 2e-2)


def test_every_library_model_learns(models):
    recipe, examples = SMALL.recipe_for("copying"), training_batch(SMALL, "copying", 8, 0)
    for model in models.values():
        training = LibraryTraining(model, recipe, CPU)
        losses = [training.step(examples) for _ in range(6)]
        assert all(map(math.isfinite, losses)) and losses[-1] < losses[0], model.who


def test_library_models_have_as_many_parameters_as_ours(models):
    assert {encoding for encoding, _ in models} == {"nope", "learned", "rope", "alibi", "t5"}
    for (encoding, who), model in models.items():
        assert model.parameters == pytest.approx(Trainee(SMALL, "copying", encoding).parameters, rel=0.02), who


def test_library_models_have_the_encoding_and_attention_of_their_name(models):
    for (encoding, who), model in models.items():
        names = ("rotary_emb.inv_freq", "rotary_pos_emb.inv_freq")
        tables = [table for name, table in model.module.named_buffers() if name.endswith(names)]
        assert [len(t) for t in tables] == ([SMALL.model.width // SMALL.model.heads // 2] if encoding == "rope" else []), who
        if who.startswith("x-transformers"):
            assert model.module.attn_layers.layers[0][1].attend.flash == who.endswith("flash")
        elif who != "MPT":  # which has only one attention
            assert model.module.config._attn_implementation == "sdpa"


def test_library_models_are_causal_and_see_order_as_their_encoding_does(models):
    tokens = torch.tensor([[1, 5, 6, 7, 8, 2]])
    swapped, changed = tokens[:, [0, 2, 1, 3, 4, 5]], tokens.clone()
    changed[0, -1] = 9
    for (encoding, who), model in models.items():
        model.module.eval()
        with torch.no_grad():
            logits, other, later = (model.logits(x)[0] for x in (tokens, swapped, changed))
        torch.testing.assert_close(logits[:-1], later[:-1], msg=f"{who} looks ahead")
        if encoding != "nope":  # NoPE depends on order only through its causal mask, and only a little
            assert not torch.allclose(logits[-1], other[-1], atol=1e-5), who


def test_our_step_is_a_step_of_the_training_loop():
    by_hand, loop = (Trainee(SMALL, "parity", "t5") for _ in range(2))
    loop.loop(3)
    recipe = by_hand.recipe.model_copy(update={"steps": 3})
    for step in range(3):
        by_hand.optimizer.learning_rate = learning_rate(recipe, step)
        by_hand.step(training_batch(SMALL, "parity", recipe.batch, step))
    for ours, its in zip(by_hand.model.parameters(), loop.model.parameters(), strict=True):
        assert torch.equal(ours, its)


# --- FLOPs


def test_estimated_flops_are_those_that_torch_counts(models):
    model, spec, symbols = models["learned", "GPT-2"].module, SMALL.model, len(SMALL.make_task("copying").vocabulary)
    model.set_attn_implementation("eager")
    try:
        sizes, answers = [5, 9, 14], [2, 4, 1]
        with flop_counter() as counter:
            for size, count in zip(sizes, answers, strict=True):
                hidden = model.transformer(torch.zeros(1, size, dtype=torch.long), use_cache=False).last_hidden_state
                model.lm_head(hidden[:, -count:]).sum().backward()
    finally:
        model.set_attn_implementation("sdpa")
    assert step_flops(spec, symbols, sizes, sum(answers)) == counter.get_total_flops()


def test_flops_of_growth_include_attention():
    trainee, spec = Trainee(SMALL, "copying", "nope"), SMALL.model
    for length in (10, 20, 32):  # the last by torch's fused attention, whose backward pass computes the scores again
        examples = tasks.test_set(trainee.task, length, 4, 0)
        rows, answers_ = int(examples.sizes.sum()), len(as_batch(examples, rounded=True).targets)
        expected = step_flops(spec, len(trainee.task.vocabulary), examples.sizes.tolist(), answers_)
        # After attention our last layer continues only with the rows that predict the answer.
        expected -= 6 * (rows - answers_) * (spec.width**2 + 2 * spec.width * spec.mlp_width)
        assert count_flops(trainee, examples) == pytest.approx(expected, rel=0.03)


# --- turns


def test_every_contestant_takes_a_turn_in_each_round_in_moving_order():
    seen: list[tuple[str, int]] = []
    runs = {name: (lambda given, name=name: seen.append((name, given))) for name in "abc"}
    times = timing.interleave(runs, lambda number: 10 + number, Budget(0, 4), warm_up=-1)
    assert seen[:3] == [("a", -1), ("b", -1), ("c", -1)]
    assert [name for name, _ in seen[3:]] == list("abcbcacababc")
    assert [given for _, given in seen[3:]] == [10] * 3 + [11] * 3 + [12] * 3 + [13] * 3
    assert {name: len(t) for name, t in times.items()} == {"a": 4, "b": 4, "c": 4}


def test_several_calls_in_a_turn_are_counted_but_for_the_first(monkeypatch):
    seen: list[tuple[str, int]] = []
    runs = {name: (lambda given, name=name: seen.append((name, given))) for name in "ab"}
    clock = iter([0.0, *(float(n) ** 2 for n in range(100))])
    monkeypatch.setattr(timing.time, "perf_counter", lambda: next(clock))
    times = timing.interleave(runs, lambda number: number, Budget(0, 2), warm_up=-1, turn=2)
    a, b = [("a", 0), ("a", 1)], [("b", 0), ("b", 1)]
    assert seen[2:6] == a + b and seen[6:] == [("b", 2), ("b", 3), ("a", 2), ("a", 3)]
    assert {name: len(t) for name, t in times.items()} == {"a": 2, "b": 2}


# --- evaluation by generate()


def random_prompts(sizes: list[int], count: int) -> Examples:
    """Random prompts of these sizes with room for an answer of ``count`` tokens."""
    draw = np.random.default_rng(0)
    tokens = np.full((len(sizes), max(sizes) + count), PAD)
    for row, size in enumerate(sizes):
        tokens[row, :size] = [BOS, *draw.integers(4, 12, size - 2), SEP]
    return Examples(tokens, np.array(sizes), np.array(sizes) + count, np.array(sizes))


@torch.no_grad()
def greedy(model: LibraryModel, examples: Examples, count: int) -> Examples:
    """The oracle: each prompt continued alone, without a cache."""
    for row, start in enumerate(examples.answer_start):
        for at in range(start, start + count):
            logits = model.logits(torch.from_numpy(examples.tokens[row : row + 1, :at]))
            examples.tokens[row, at] = logits[0, -1].argmax()
            if examples.tokens[row, at] == EOS:
                examples.sizes[row] = at + 1
                break
    return examples


@pytest.mark.parametrize("who", [("learned", "GPT-2"), ("rope", "Llama"), ("rope", "GPT-NeoX"), ("alibi", "MPT")])
def test_generate_is_greedy_decoding(models, who):
    model = models[who]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        for parameter in model.module.parameters():
            if parameter.ndim == 2:
                torch.nn.init.normal_(parameter, std=0.2)
    model.module.eval()
    examples = greedy(model, random_prompts([4, 9, 6, 9], 5), 5)
    assert len(np.unique(examples.tokens[:, 4:])) > 4, "a model that repeats one token shows nothing"
    assert generated_match(model, examples) == 1
    examples.tokens[1, examples.answer_start[1]] ^= 1
    assert generated_match(model, examples) == 0.75


def test_prompts_are_padded_on_the_left_and_answers_on_the_right():
    task = SMALL.make_task("addition")
    examples = tasks.test_set(task, 3, 50, 0)
    (prompts, seen), wanted = left_padded(examples), answers(examples)
    assert len(set(examples.answer_start.tolist())) > 1
    for row, (start, size) in enumerate(zip(examples.answer_start, examples.sizes, strict=True)):
        whole = examples.tokens[row, :size].tolist()
        assert prompts[row][seen[row] == 1].tolist() == whole[:start]
        assert prompts[row, -1] == SEP and int(seen[row].sum()) == start
        assert wanted[row][wanted[row] != PAD].tolist() == whole[start:]


# --- memory


def test_peak_memory_is_that_of_this_process_alone():
    code = "from bench.speed.memory import peak_mb as p; a = p(); x = b'1' * 2**28; b = p(); del x; print(a, b, p())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    before, holding, after = map(float, done.stdout.split())
    assert holding - before == pytest.approx(256, abs=5) and after == pytest.approx(holding, abs=1)
    assert before < peak_mb() / 2, "memory of the parent process does not count"
