"""The benchmarks: contestants do the same work on the same examples, and the scripts run. No test compares speed."""

import math

import cpu
import equality
import gpu
import gpu_page
import numpy as np
import pandas as pd
import pytest
import torch
from common import CPU, Ours, Theirs, library_models, right_padded, suite_of, versus
from devices import equivalence
from equality import DrawOnCPU, compare
from flex import flex_model
from scipy.special import softmax
from scipy.stats import ttest_1samp
from torch.nn.attention.flex_attention import create_mask
from torch.utils.flop_counter import FlopCounterMode

import tasks
from bench.runs.estimate import step_flops
from bench.training.batches import IGNORED
from tasks import EOS

torch.set_num_threads(1)
COPYING = suite_of("64x3", "copying", batch=16)


@pytest.fixture
def models() -> dict[tuple[str, str], torch.nn.Module]:
    """Every library's model at the shapes of copying, by encoding and name."""
    return {(encoding, who): module for who, encoding, module in library_models(COPYING)}


# --- the same work


@pytest.mark.parametrize("task", ["copying", "addition", "parity", "key_retrieval", "sorting"])
def test_libraries_predict_the_tokens_that_we_predict(task):
    suite = suite_of("64x3", task)
    examples = tasks.train_batch(suite.make_task(task), suite.spec(task).train_length, 16, 0, 3)
    ids, labels = right_padded(examples)
    for row, (start, size) in enumerate(zip(examples.answer_start, examples.sizes, strict=True)):
        whole = examples.tokens[row, :size].tolist()
        assert ids[row, : size - 1].tolist() == whole[:-1]
        counted = labels[row] != IGNORED
        assert labels[row][counted].tolist() == whole[start:] and whole[-1] == EOS
        assert np.flatnonzero(counted.numpy()).tolist() == list(range(start - 1, size - 1))
    assert right_padded(examples, 200)[0].shape == (16, 199)


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


@pytest.mark.parametrize("encoding", ["nope", "alibi"])
def test_with_equal_weights_the_losses_of_first_steps_are_equal(models, encoding):
    """So that both draw the same examples, and have the same loss, gradient and update."""
    ours, module = Ours(COPYING, encoding), models[encoding, "x-transformers"]
    copy_weights(ours.model, module)
    theirs = Theirs(module, COPYING)
    theirs.optimizer.param_groups[0]["lr"] = COPYING.recipe_for("copying").learning_rate / 100  # the warmup's first step
    expected, _ = equality.first_steps(ours, 2)
    assert theirs.steps(2) == pytest.approx(expected, rel=1e-4)


def test_library_models_have_as_many_parameters_as_ours(models):
    assert {encoding for encoding, _ in models} == {"nope", "learned", "rope", "alibi", "t5"}
    for (encoding, who), module in models.items():
        ours = sum(p.numel() for p in Ours(COPYING, encoding).model.parameters())
        assert sum(p.numel() for p in module.parameters()) == pytest.approx(ours, rel=0.04), who


@pytest.mark.parametrize("encoding", ["alibi", "t5"])
def test_flex_attention_has_the_bias_of_its_name(encoding, monkeypatch):
    """A single head's weights, from logits that are the bias alone, against softmax of the published bias."""
    _, _, module = flex_model(COPYING, encoding, CPU)
    seen = []

    def attention(q, k, v, score_mod, block_mask):
        count = q.shape[2]
        i, j = torch.arange(count)[:, None], torch.arange(count)[None]
        logits = torch.stack([score_mod(torch.zeros(count, count), torch.tensor(0), torch.tensor(h), i, j) for h in range(4)])
        keep = create_mask(lambda b, h, i, j: block_mask.mask_mod(b, h, i, j), 1, 1, count, count, device="cpu")[0, 0]
        seen.append(logits.masked_fill(~keep, -math.inf).softmax(-1))
        return (seen[-1] @ v).contiguous()

    monkeypatch.setattr("flex.flex_attention", attention)
    if encoding == "t5":
        module.table.data.normal_()
    width = len(module.bucket)
    with torch.no_grad():
        module(torch.zeros(2, width, dtype=torch.long))
    back = np.arange(width)[:, None] - np.arange(width)
    near = np.clip(back, 0, None)
    far = 16 + np.floor(np.log(np.maximum(near, 1) / 16) / np.log(8) * 16).clip(max=15)
    for head in range(4):
        bias = -back * 4.0 ** -(head + 1)
        if encoding == "t5":
            bias = module.table.detach().numpy()[np.where(near < 16, near, far).astype(int), head]
        expected = softmax(np.where(back < 0, -np.inf, bias), axis=-1)
        np.testing.assert_allclose(seen[0][head], expected, atol=1e-6)


def test_estimated_flops_are_those_that_torch_counts(models):
    model, symbols = models["learned", "GPT-2"], len(COPYING.make_task("copying").vocabulary)
    model.set_attn_implementation("eager")
    sizes, answers = [5, 9, 14], [2, 4, 1]
    with FlopCounterMode(display=False) as counter:
        for size, count in zip(sizes, answers, strict=True):
            hidden = model.transformer(torch.zeros(1, size, dtype=torch.long), use_cache=False).last_hidden_state
            model.lm_head(hidden[:, -count:]).sum().backward()
    assert step_flops(COPYING.model, symbols, sizes, sum(answers)) == counter.get_total_flops()


# --- turns and tables


def test_the_table_compares_with_the_fastest_other_contestant():
    times = {("nope", "lprime"): 2.0, ("nope", "lprime, not recorded"): 1.0, ("nope", "a"): 8.0, ("nope", "b"): 4.0}
    times |= {("t5", "lprime"): 3.0}
    rows = [{"encoding": e, "who": who, "ms": ms, "task": "x"} for (e, who), ms in times.items()]
    lines = versus(pd.DataFrame(rows), "task").splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]
    assert cells == [["nope", "2 (2.00×)", "2.00×"], ["t5", "3", ""]]


# --- equality of devices


def test_both_devices_draw_the_same_numbers():
    def drawn(device):
        return torch.randint(100, (8,), generator=torch.Generator().manual_seed(3), device=device)

    with DrawOnCPU():
        elsewhere, here = drawn("meta"), drawn("cpu")
        source = torch.Generator().manual_seed(3)
        twice = [torch.randint(100, (4,), generator=source, device="cpu") for _ in range(2)]
    assert elsewhere.device.type == "meta" and here.tolist() == drawn("cpu").tolist() == torch.cat(twice).tolist()


def test_a_wrong_device_is_seen(monkeypatch):
    """A second model whose activation differs by a thousandth, in place of a GPU that computes something else."""
    exact, calls = torch.nn.functional.gelu, []

    def wrong(x, *args, **kwargs):
        calls.append(0)
        return exact(x, *args, **kwargs) * (1 + 1e-3 * (len(calls) > 6))

    (right,) = compare("nope", CPU, 2, 4)
    assert (right["loss"], right["gradient"], right["losses"], right["graph"]) == (0, 0, 0, None)
    monkeypatch.setattr("bench.training.model.F.gelu", wrong)
    (found,) = compare("nope", CPU, 2, 4)
    assert found["gradient"] > gpu_page.BOUNDS["gradient"] and found["losses"] >= found["loss"] > 0


def test_scores_are_equal_if_both_one_sided_t_tests_say_so():
    for seed in range(40):
        gaps = np.random.default_rng(seed).normal(0.004, 0.02, 12)
        ps = [ttest_1samp(gaps, end, alternative=side).pvalue for end, side in ((-0.015, "greater"), (0.015, "less"))]
        assert (equivalence(pd.Series(gaps), 0.015)["equal"] == "yes") == (max(ps) < 0.05)


# --- the scripts


def test_a_quick_run_on_a_gpu_measures_every_part_once_and_its_page_names_failures(tmp_path, capfd):
    path = tmp_path / "gpu.jsonl"
    gpu.main(out=tmp_path, commit="abc123", quick=True)
    rows = gpu_page.read(path)
    assert {row["part"] for row in rows} == {"machine", "equality", "steps", "catalogue", "packed"}
    assert not [row for row in rows if "error" in row]
    page = (tmp_path / "GPU.md").read_text()
    assert "commit abc123" in page and "smoke run" in page and len(page.splitlines()) <= 40 and page in capfd.readouterr().out

    with path.open("a") as file:
        file.write('{"part": "equality", "case": "broken", "error": "no kernel"}\n')
        file.write('{"part": "equality", "case": "cope", "loss": 2e-3, "gradient": 1e-6, "losses": 1e-5, "graph": null}\n')
        file.write('{"part')
    gpu.main(out=tmp_path, commit="abc123", quick=True)
    assert [row["part"] for row in gpu_page.read(path)[len(rows) + 2 :]] == []
    page = (tmp_path / "GPU.md").read_text()
    assert "Failed: equality broken: no kernel." in page and ": cope.\n" in page


def test_a_quick_run_on_a_cpu(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    cpu.main(quick=True)
    shown = capsys.readouterr().out
    assert "smoke run" in shown and "| t5 " in shown
    assert not list(tmp_path.iterdir())
