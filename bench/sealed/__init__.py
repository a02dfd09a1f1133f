"""Runs of code that nobody vouches for: the judge holds data, answers, weights and optimizer; the code only computes.

::

    judge (this process)                          sealed process (sandbox.py: no network, no files, no environment)
    weights, batch without anything later   ─▶    loss and gradients           run.py: the optimizer's step is ours
    weights, prompt and answer so far       ─▶    logits of the next token     judge.py: then the true token is revealed

So an encoding cannot train between steps, since every step starts from our weights. It cannot see an answer, since no answer is
in its process. What its process remembers is lost, since the test runs in another one. Each prediction is compared with the
prediction of the process that has trained, which sees the answers. The two differ if the code looks ahead or keeps something
from one pass to the next. Gradients are what the code computes: only a reader sees if they are of other data.
"""
