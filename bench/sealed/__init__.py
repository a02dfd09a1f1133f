"""Runs of code that nobody vouches for: the judge holds data, answers, weights and optimizer; the code only computes.

::

    judge (this process)                          sealed process (sandbox.py: no network, no files, no environment)
    weights, batch without anything later   ─▶    loss and gradients           judge.py: the optimizer's step is ours
    weights, prompt and answer so far       ─▶    logits of the next token     evaluate.py: then the true token is revealed

So an encoding cannot train on other data or between steps, since every step starts from our weights; it cannot see an answer,
since no answer is in its process; and what its process remembers is lost, since the test runs in a new one. Three comparisons
do the rest. ``audit.py`` compares gradients with differences of the loss, which finds those of other data. ``evaluate.py``
compares predictions with those that are made with the answers in view, as other runs are tested. ``run.py`` asks the process
that has trained what it asked the new one: code that keeps something from one pass to the next answers them differently.

    process.py    a process in the sandbox and its limits
    channel.py    messages between the two, read as untrusted data
    child.py      the sealed process
"""
