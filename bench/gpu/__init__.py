"""``python -m bench.gpu``: what a GPU computes, and how fast, in one command that stops in time and can be continued.

::

    equality.py      every encoding: loss and gradients on the GPU against the CPU, recorded steps, bf16
    steps.py         training steps next to the libraries', compiled too
    packed.py        several trainings at a time
    mps.py           NVIDIA's Multi-Process Service
    grid.py          a whole grid by ``lprime run``
    candidates.py    settings of standard's tasks to try
    calibration.py   their trials, and the choice by the criteria of bench/suites/CALIBRATION.md
    measurements.py  the file of measurements, to which each is appended when it is done
    page.py          the page with the tables
    h200             what was measured on an H200

Needs no network. To go on elsewhere, copy ``measurements.jsonl``, ``trials.tar.gz`` and ``results.tar.gz`` there.
"""
