"""Runs of code that nobody vouches for: the judge holds data, answers, weights and optimizer; the code only computes.

::

    judge (this process)                          sealed process (sandbox.py: no network, no files, no environment)
    weights, batch without anything later   ─▶    loss and gradients           judge.py: the optimizer's step is ours
    weights, prompt and answer so far       ─▶    logits of the next token     reveal.py: then the true token is revealed

So an encoding cannot train on other data or between steps, since every step starts from our weights. It cannot see an answer,
since no answer is in its process. What its process remembers is lost, since the test runs in a new one. Two comparisons do the
rest. ``audit.py`` compares gradients with differences of the loss, which finds gradients of other data. ``reveal.py`` compares
each prediction with that of the process that has trained, which sees the answers: they differ if the code looks ahead or keeps
something from one pass to the next.

    request.py    sealed runs as requests to a worker
    process.py    a process in the sandbox and its limits
    channel.py    messages between the two, read as untrusted data
    child.py      the process: sets its limits, then serves checks (bench.check) or the judge (served_model.py)
"""
