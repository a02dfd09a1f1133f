"""Models that are not lprime's, tested and trained: against the harness, a perfect model, a plain loop; and what is refused."""

import math
import runpy
from types import SimpleNamespace

import pytest
import torch
import yaml
from support import ROOT, suite_dict
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.loss.loss_utils import ForCausalLMLoss

import lprime
import tasks
from tasks import EOS, SEP, InputError
from tasks.text import SCORED

torch.set_num_threads(1)
SECONDS = suite_dict(name="seconds", recipe={"clip_norm": 0.05})


@pytest.fixture
def here(here, fresh_registry):
    """A folder with a suite of one-second runs."""
    (here / "seconds.yaml").write_text(yaml.safe_dump(SECONDS))
    return here


def copier(ids: torch.Tensor) -> torch.Tensor:
    """Logits of the right answers of copying, from the prompt."""
    logits = torch.zeros(*ids.shape, 12)
    for row, out in zip(ids.tolist(), logits, strict=True):
        sep = row.index(SEP) if SEP in row else len(row)
        for place in range(sep, len(row)):
            out[place, row[1 + place - sep] if place - sep < sep - 1 else EOS] = 9.0
    return logits


def test_a_model_of_the_harness_gets_its_own_scores(here):
    expected = lprime.evaluate("rope", "seconds.yaml", "copying", quiet=True)
    model = lprime.train("rope", "seconds.yaml", "copying")
    found = lprime.evaluate_model(lambda ids: model.logits(model(ids, 1)), "seconds.yaml", "copying", name="mine")
    columns = ["task", "length", "exact", "chance", "token_chance", "fingerprint", "weight"]
    assert found[columns].equals(expected[columns]) and list(found.columns) == list(expected.columns)
    assert found["nll"].to_numpy() == pytest.approx(expected["nll"].to_numpy(), rel=1e-4)
    assert set(found["encoding"]) == {"mine"} and set(found["origin"]) == {"model"}
    lprime.plot(found)


def test_a_perfect_model_is_right_at_every_length(here):
    frame = lprime.evaluate_model(lambda ids: SimpleNamespace(logits=copier(ids)), "copying", lengths=[3, 40, 9])
    assert frame["length"].tolist() == [3, 9, 40] and frame["exact"].tolist() == [1, 1, 1]
    assert set(frame["suite"]) == {"small"} and set(frame["fingerprint"]) == {"c3958388dc00f09e"}
    own = lprime.evaluate_model(copier, "seconds.yaml", "copying", lengths=[2])
    with pytest.raises(InputError, match="unknown suite 'copying'"):
        lprime.evaluate_model(copier, "copying", "parity")
    assert own["exact"].tolist() == [1] and own["weight"].tolist() == [0], "no length is beyond L"
    (here / "words.txt").write_text(("to be or not to be that is the question " * 20 + "\n<|endoftext|>\n") * 40)
    text = {"task": "text", "variant": "characters", "train_length": 64, "settings": {"corpus": str(here / "words.txt")}}
    words = suite_dict(name="words", score="bits", tasks=[text], test_at=[1, 2], test_examples=2)
    (here / "words.yaml").write_text(yaml.safe_dump(words))
    random, lengths = torch.nn.Embedding(60, 60), torch.tensor([64, 128]).numpy()
    given, plain = (lprime.evaluate_model(random, "words.yaml", lengths=asked) for asked in (lengths, None))
    assert given["nll"].tolist() == plain["nll"].tolist() and given["nll_other"].isna().all(), "of the suite's lengths alone"
    assert plain["nll_other"].notna().any()
    made = tasks.get("text", "characters", 128, corpus=str(here / "words.txt"))
    ids = torch.tensor(made.test_examples(128, 2, 0).tokens)
    labels = torch.where(torch.arange(ids.shape[1]) < ids.shape[1] - SCORED, -100, ids)
    assert plain["nll"].iloc[-1] == pytest.approx(ForCausalLMLoss(random(ids), labels, 60).item(), rel=1e-5)


@pytest.mark.parametrize(
    ("model", "lengths", "message"),
    [
        (lambda ids: copier(ids.flip(1)).flip(1), None, "the model is not causal"),
        (lambda ids: copier(ids)[..., :5], None, r"logits of shape \[16, 7, 5\]; expected \[16, 7, 12 or more\]"),
        (lambda ids: copier(ids)[:, -1], None, r"logits of shape \[16, 12\]"),
        (copier, [1, 99], "length must be in 1 … 8, got 99"),
    ],
)
def test_other_models_are_refused(here, model, lengths, message):
    with pytest.raises(InputError, match=message):
        lprime.evaluate_model(model, "seconds.yaml", "copying", lengths=lengths)


def llama() -> torch.nn.Module:
    """With an embedding that is tied to the head, and a frozen matrix."""
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    model = LlamaForCausalLM(LlamaConfig(vocab_size=12, tie_word_embeddings=True, **sizes))
    model.model.layers[0].mlp.up_proj.requires_grad_(False)
    return model


def plain_loop(model: torch.nn.Module, data, spec: dict) -> list[float]:
    """The losses of the recipe by torch alone, on the rows of ``load_task``."""
    trained = [p for p in model.parameters() if p.requires_grad]
    decayed = {p for p in trained if p.ndim == 2} - {model.model.embed_tokens.weight}
    groups = [{"params": [p], "weight_decay": spec["weight_decay"] * (p in decayed)} for p in trained]
    optimizer, losses, warm = torch.optim.AdamW(groups, betas=spec["betas"]), [], spec["warmup_steps"]
    for step in range(spec["steps"]):
        batch = data.collate([data["train"][n] for n in range(step * spec["batch"], (step + 1) * spec["batch"])])
        logits = model(batch["input_ids"]).logits[:, :-1].flatten(0, 1)
        loss = torch.nn.functional.cross_entropy(logits, batch["labels"][:, 1:].flatten(), ignore_index=-100)
        optimizer.zero_grad()
        loss.backward()
        assert torch.nn.utils.clip_grad_norm_(trained, spec["clip_norm"]) > spec["clip_norm"], "clipping has an effect"
        decay = (1 + math.cos(math.pi * (step - warm) / (spec["steps"] - warm))) / 2
        for group in optimizer.param_groups:
            group["lr"] = spec["learning_rate"] * ((step + 1) / warm if step < warm else decay)
        optimizer.step()
        losses.append(loss.item())
    return losses


def test_a_model_of_yours_is_trained_as_by_a_plain_loop(here):
    model, twin, spec = llama(), llama(), SECONDS["recipe"]
    lprime.evaluate_model(model, "seconds.yaml", "copying")  # caches made here serve the training
    assert lprime.train(model=model, suite="seconds.yaml", task="copying", seed=3) is model and not model.training
    data = lprime.load_task("copying", "seconds.yaml", train_examples=spec["steps"] * spec["batch"], seed=3)
    losses = plain_loop(twin, data, spec)
    for (name, ours), theirs in zip(model.named_parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-4, msg=lambda text, name=name: f"{name}: {text}")
    frame = lprime.evaluate_model(model, "seconds.yaml", "copying")
    assert frame["final_loss"][0] == pytest.approx(sum(losses[-2:]) / 2, rel=1e-4), "the mean of the last two steps"
    assert frame["steps"][0] == 40 and frame["step_ms"][0] > 0
    assert frame["parameters"][0] == sum(p.numel() for p in twin.parameters() if p.requires_grad)


def test_what_cannot_be_trained_is_refused(here):
    with pytest.raises(InputError, match="expected an encoding or model="):
        lprime.train(suite="seconds.yaml")
    with pytest.raises(InputError, match=r"small tests several learning rates; expected learning_rate= one of 0\.001, 0\.002"):
        lprime.train("rope", "small")
    with pytest.raises(InputError, match="diverged on copying at step"):
        lprime.train(model=llama(), suite="seconds.yaml", learning_rate=1e30)
    blind = torch.nn.Sequential(torch.nn.Embedding(12, 4), torch.nn.Linear(4, 3))
    with pytest.raises(InputError, match=r"logits of shape \[16, \d+, 3\]"):
        lprime.train(model=blind, suite="seconds.yaml")


def test_the_example_prints_a_table_of_two_models(here, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["", "seconds.yaml", "copying"])
    runpy.run_path(str(ROOT / "examples/linear_attention.py"), run_name="__main__")
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [row[:2] for row in rows if row[0] != "encoding"] == [["linear", "101516"]] * 4 + [["llama", "132928"]] * 4
