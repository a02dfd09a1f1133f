"""Runs of code that nobody vouches for: the judge holds data, answers, loss and optimizer; the code computes the layers.

::

    judge (this process)                                      sealed process (sandbox.py: no network, files, environment)
    embedding of a batch, weights                       ─▶    hidden states
    head, loss: gradient of the hidden states           ─▶    gradients             run.py: the optimizer's step is ours
    embedding of a prompt and the answer so far         ─▶    hidden states         judge.py: then a true token is revealed

An encoding cannot train between steps, since every step starts from our weights. It cannot look answers up or look ahead: its
process has no task, suite or seed, the test set is drawn after the code was written, and a token is revealed only after it is
predicted. What it remembers of the training and of other tests is lost, since the test of each length runs in another process.
Gradients are what the code computes, and code that sees a prompt may compute its answer: only a reader sees that.
"""
