"""``python -m bench.gpu`` without a GPU: the smoke run, which uses the CPU as if it were one, and its file."""

import tarfile

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bench.gpu import __main__ as command
from bench.gpu.equality import DrawOnCPU, Largest, compare, relative
from bench.gpu.measurements import Failure, append, read_measurements
from bench.gpu.page import render
from tasks import InputError


def test_smoke_run_stops_is_continued_and_measures_nothing_twice(tmp_path):
    arguments = ["--quick", "--out", str(tmp_path), "--workers", "1"]
    command.main([*arguments, "--only", "equality", "--only", "packed"])
    found = read_measurements(tmp_path / "measurements.jsonl")
    assert [(m.kind, m.key) for m in found[:1] + found[3:]] == [("machine", found[0].key), ("packed", "quick 2")]
    equal = {m.key: m for m in found[1:3]}
    assert equal.keys() == {"nope", "randomised(rope)"}
    assert all(
        m.loss == m.gradient == m.past_logits == 0 < m.bf16_loss < 0.02 > m.past_bf16_logits > 0 for m in equal.values()
    ), "one device"
    assert equal["nope"].graph_loss == 0 and equal["randomised(rope)"].fallback == "draws random numbers"
    assert found[3].runs_per_hour > 0 and found[3].at_once == 2 and found[3].busy is None
    command.main([*arguments, "--only", "packed", "--only", "grid"])
    later = read_measurements(tmp_path / "measurements.jsonl")[len(found) :]
    assert [m.kind for m in later] == ["machine", "grid"] and (later[-1].done, later[-1].asked) == (1, 1)
    with tarfile.open(tmp_path / "results.tar.gz") as packed:
        assert [name.split("/")[-1] for name in packed.getnames()] == ["result.json"]
    text = (tmp_path / "GPU.md").read_text()
    assert text == render(read_measurements(tmp_path / "measurements.jsonl")) and "numbers mean nothing" in text
    assert "Grid `quick`: 1 of 1 runs" in text and str(tmp_path) not in text
    command.main([*arguments, "--minutes", "0"])
    assert [m.kind for m in read_measurements(tmp_path / "measurements.jsonl")[len(found) + 2 :]] == ["machine"]


def test_without_a_gpu_the_full_command_is_refused(monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SystemExit) as ended:
        command.main([])
    assert ended.value.code == 2 and "no CUDA device was found" in capsys.readouterr().err


def test_a_line_that_was_cut_off_is_dropped_and_others_are_refused(tmp_path):
    path = tmp_path / "m.jsonl"
    first, second = Failure(key="packed small 2", error="é"), Failure(key="b", error="y")
    append(path, first)
    with path.open("ab") as file:
        file.write('{"kind": "failure", "key": "L′'.encode()[:-1])  # in the middle of a character
    assert read_measurements(path) == [first]
    append(path, second)
    assert read_measurements(path) == [first, second]
    assert "- packed small 2: é" in render([first])
    path.write_text("{}\n" + path.read_text())
    with pytest.raises(InputError, match="line 1, is no measurement"):
        read_measurements(path)


@given(st.lists(st.floats(-9, 9), min_size=1, max_size=5), st.floats(1e-6, 1))
def test_relative_difference(values, share):
    expected = torch.tensor([*values, 1.0], dtype=torch.float64)
    assert relative([expected * (1 + share)], [expected]) == pytest.approx(share)
    seen = Largest()
    seen.add((torch.tensor(float("nan")), [expected]), (torch.tensor(1.0), [expected]))
    assert seen.loss > 1e9 and seen.gradient == 0


def test_a_wrong_device_is_seen(monkeypatch):
    """A second model whose activation differs by a thousandth, in place of a GPU that computes something else."""
    from bench.training import model

    exact, calls = torch.nn.functional.gelu, []

    def wrong(x, *args, **kwargs):
        calls.append(0)
        return exact(x, *args, **kwargs) * (1 + 1e-3 * (len(calls) % 5))

    monkeypatch.setattr(model.F, "gelu", wrong)
    found = compare("nope", "cpu", 1, "quick")
    assert found.gradient > 1e-4 < found.past_logits


def test_both_devices_draw_the_same_numbers():
    def drawn(device):
        return torch.randint(100, (8,), generator=torch.Generator().manual_seed(3), device=device)

    with DrawOnCPU():
        elsewhere, here = drawn("meta"), drawn("cpu")
    assert elsewhere.device.type == "meta" and here.tolist() == drawn("cpu").tolist()
