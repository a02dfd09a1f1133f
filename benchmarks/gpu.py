"""``python benchmarks/gpu.py``: what a GPU computes, and how fast. Calls of some minutes continue each other.

The numbers of a case are lines of ``<out>/gpu.jsonl``, and the page ``<out>/GPU.md`` is written after each. ``--quick`` tries
everything on a CPU at a hundredth of the size.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from functools import partial
from itertools import product
from multiprocessing import active_children, get_context
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from common import CPU, OURS, REFERENCES, SIZES, Ours, Theirs, library_models, machine, suite_of, take_turns
from equality import compare
from flex import flex_model
from gpu_page import read, render

from bench import encodings
from bench.files import write_atomic
from bench.runs.estimate import step_flops
from tasks import InputError

ENCODINGS = {"cuda": tuple(encodings.catalogue()), "cpu": ("nope", "randomised(rope)")}
SIZES_ON = {"cuda": tuple(SIZES), "cpu": tuple(SIZES)[:1]}
Rows = list[dict[str, Any]]
Cases = Iterator[tuple[str, Callable[[], Rows]]]
"""Name of each case, and the function that measures it."""


def main(
    minutes: Annotated[float, typer.Option(min=0, help="Stop after so many minutes.")] = 8.0,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Numbers and page; continued.")] = Path("gpu"),
    commit: Annotated[str | None, typer.Option(metavar="HASH", help="Commit of the code, where git does not know it.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="On the CPU, whose numbers mean nothing.")] = False,
) -> None:
    """Compare a GPU with the CPU, and measure its speed."""
    end = time.monotonic() + 60 * minutes
    if not (quick or torch.cuda.is_available()):
        raise InputError("no CUDA device was found; --quick tries the command on a CPU")
    device, path = CPU if quick else torch.device("cuda"), out / "gpu.jsonl"
    out.mkdir(parents=True, exist_ok=True)
    keep(path, "machine", "", [{"text": machine(device, commit, quick)}])
    for name, cases_of in PARTS.items():
        known = {row["case"] for row in read(path) if row["part"] == name}
        cases = {case: measure for case, measure in cases_of(device) if case not in known}
        processes = os.cpu_count() if name == "equality" else 1
        with ThreadPoolExecutor(1) if quick else ProcessPoolExecutor(processes, get_context("spawn")) as pool:
            jobs = {pool.submit(attempt, measure): case for case, measure in cases.items()}
            try:
                for job in as_completed(jobs, timeout=max(0.0, end - time.monotonic())):
                    keep(path, name, jobs[job], job.result())
            except TimeoutError:
                print("no time left; the same command goes on", flush=True)
                for process in active_children():
                    process.kill()
                os._exit(0)
    print((out / "GPU.md").read_text())


def attempt(measure: Callable[[], Rows], **where: str) -> Rows:
    """The numbers of a case, or its error."""
    torch.set_num_threads(1)
    try:
        return measure()
    except Exception as error:  # of an encoding, a library or the compiler
        return [{**where, "error": f"{type(error).__name__}: {' '.join(str(error).split())}"[:200]}]


def keep(path: Path, part: str, case: str, rows: Rows) -> None:
    """Append a case to the file, and write the page. After an error of CUDA every later call would fail: start again."""
    with path.open("a") as file:
        file.writelines(json.dumps({"part": part, "case": case, **row}) + "\n" for row in rows)
    write_atomic(path.parent / "GPU.md", render(read(path)))
    errors = [row["error"] for row in rows if "error" in row]
    print(part, case, *errors, flush=True)
    if any("CUDA error" in error for error in errors):
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def equality_cases(device: torch.device) -> Cases:
    steps, batch = (50, None) if device.type == "cuda" else (3, 2)
    for name in ENCODINGS[device.type]:
        yield name, partial(compare, name, device, steps, batch)


def step_cases(device: torch.device) -> Cases:
    names, precisions = (REFERENCES, (False, True)) if device.type == "cuda" else (REFERENCES[-1:], (False,))
    for size, name, low in product(SIZES_ON[device.type], names, precisions):
        yield f"{size} {name} {'bf16' if low else 'fp32'}", partial(time_steps, size, name, low, device)


def time_steps(size: str, name: str, low: bool, device: torch.device) -> Rows:
    """Median ms of a step of copying of each contestant, by turns."""
    on_gpu = device.type == "cuda"
    suite = suite_of(size, "copying", low=low, batch=None if on_gpu else 2)
    contestants: dict[str, Ours | Theirs] = {OURS: Ours(suite, name, device)}
    contestants[f"{OURS}, not recorded"] = Ours(suite, name, device, graphs=False)
    contestants[f"{OURS}, torch's kernel"] = Ours(suite, name, device, efficient=False)
    rivals = [(*one, compiled) for one in library_models(suite) if one[1] == name for compiled in (False, True)[: 1 + on_gpu]]
    rivals += [(*flex_model(suite, name, device), True)] if name in ("alibi", "t5") and on_gpu else []
    where, rows = {"encoding": name, "size": f"{size} {'bf16' if low else 'fp32'}"}, Rows()
    for library, _, module, compiled in rivals:
        who, theirs = f"{library}{', compiled' * compiled}", Theirs(module, suite, device, compiled)
        failed = attempt(lambda theirs=theirs: theirs.steps(2) and [], who=who)
        rows += failed
        contestants |= {} if failed else {who: theirs}
    return rows + [{**where, "who": who, "ms": ms} for who, ms in turns(contestants, device).items()]


def turns(contestants: dict[str, Any], device: torch.device) -> dict[str, float]:
    """Median ms of a step of each contestant."""
    count, rounds = (10, 8) if device.type == "cuda" else (1, 1)
    return take_turns({who: partial(one.steps, count) for who, one in contestants.items()}, rounds, count)


def catalogue_cases(device: torch.device) -> Cases:
    for name in ENCODINGS[device.type]:
        yield name, partial(time_encoding, name, device)


def time_encoding(name: str, device: torch.device) -> Rows:
    """Step over NoPE's at 1,024 tokens, and peak MiB of a step and of a test at twice the length, in bf16."""
    length, batch, tested = (510, 16, 64) if device.type == "cuda" else (6, 2, 2)
    suite = suite_of(SIZES_ON[device.type][-1], "copying", length, low=True, batch=batch)
    rivals = {who: Ours(suite, who, device) for who in dict.fromkeys(("nope", name))}
    ms, one = turns(rivals, device), rivals[name]
    found = {"ms": ms[name], "over_nope": ms[name] / ms["nope"]}
    test = one.task.test_examples(one.task.longest, tested, 0)
    for what, call in {"train_mb": partial(one.steps, 2), "test_mb": partial(one.evaluate, test)}.items():
        torch.cuda.reset_peak_memory_stats() if device.type == "cuda" else None
        before = torch.cuda.memory_allocated()
        call()
        found[what] = (torch.cuda.max_memory_allocated() - before) / 2**20
    return [found]


def packed_cases(device: torch.device) -> Cases:
    for size in SIZES_ON[device.type]:
        for count in (1, 4, 16) if device.type == "cuda" else (2,):
            yield f"{size} {count}", partial(time_packed, size, count, device)


def time_packed(size: str, count: int, device: torch.device) -> Rows:
    """Steps a second of several trainings together, their useful TFLOP/s, and use and memory of the GPU."""
    suite, spawn = suite_of(size, "copying", batch=None if device.type == "cuda" else 2), get_context("spawn")
    task, recipe, length = suite.make_task("copying"), suite.recipe_for("copying"), suite.spec("copying").train_length
    tokens, steps = [task.tokens(n) for n in range(1, length + 1)], 300 if device.type == "cuda" else 2
    flops = step_flops(suite.model, len(task.vocabulary), tokens, sum(tokens) // 2) / length * recipe.batch
    start, times = spawn.Barrier(count + 1, timeout=120), spawn.Queue()
    arguments = [(suite, REFERENCES[n % 4], device, steps, start, times) for n in range(count)]
    processes = [spawn.Process(target=train, args=own, daemon=True) for own in arguments]
    for process in processes:
        process.start()
    start.wait()
    time.sleep(0.5)
    use = gpu_use() if device.type == "cuda" else {}
    rate = count * steps / max(times.get(timeout=120) for _ in processes)
    return [{"size": size, "at_once": count, "steps_per_s": rate, "tflops": rate * flops / 1e12, **use}]


def train(suite: Any, encoding: str, device: torch.device, steps: int, start: Any, times: Any) -> None:
    """Time a training's steps, after steps in which the CUDA graphs of the most frequent shapes are recorded."""
    torch.set_num_threads(1)
    one = Ours(suite, encoding, device)
    one.steps(20 if device.type == "cuda" else 1)
    start.wait()
    begun = time.perf_counter()
    one.steps(steps)
    times.put(time.perf_counter() - begun)


def gpu_use() -> dict[str, float]:
    """Share of the time with a running kernel, and memory in MiB, by ``nvidia-smi``."""
    query = ["nvidia-smi", "--query-gpu=utilization.gpu,memory.used", "--format=csv,noheader,nounits"]
    busy, memory = subprocess.run(query, capture_output=True, text=True, check=True).stdout.splitlines()[0].split(",")
    return {"busy": float(busy) / 100, "memory_mb": float(memory)}


PARTS = {"equality": equality_cases, "steps": step_cases, "catalogue": catalogue_cases, "packed": packed_cases}

if __name__ == "__main__":
    typer.run(main)
