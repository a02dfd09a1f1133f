"""Runs of code that nobody vouches for: the judge holds data, answers, weights and optimizer; the code only computes.

::

    judge (this process)                          sealed process (sandbox.py: no network, no files, no environment)
    weights, batch without anything later   ─▶    loss and gradients           judge.py: the optimizer's step is ours
    weights, prompt and answer so far       ─▶    logits of the next token     evaluate.py: then the true token is revealed

So an encoding cannot train on other data or between steps, since every step starts from our weights; it cannot see an answer,
since no answer is in its process; and what its process remembers is lost, since the test runs in a new one. Gradients of other
data than ours would remain; ``audit.py`` compares them with differences of the loss.

    channel.py    messages between the two, read as untrusted data
    child.py      the sealed process
"""
