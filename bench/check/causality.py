"""Causality: outputs must not depend on later tokens, on where the sequence ends, or on other rows of the batch."""

from .checks import Fault, encoding_check
from .subject import Subject, hidden_states, mode, rows_differ


@encoding_check(
    "causality",
    advice="an entry for query i may use keys, values and inputs up to i only (look for the mask of an `attend` of your own, "
    "roll, flip, sums and means over all of T), and the length of a sequence is at.announced_length, never the T of a tensor",
)
def check_causality(subject: Subject) -> str:
    """Cutting a sequence short changes no output before the cut: none depends on a later token, or on where tokens end."""
    tried = 0
    for case in subject.cases:
        model, train, longest = subject.model(case), case.setup.train_tokens, case.setup.longest_tokens
        for training in (True, False):
            for announced_length in (train, longest):
                tokens = case.sequences(2, announced_length, seed=0)
                whole = hidden_states(model, tokens, announced_length, training)
                for size in range(1, announced_length, max(1, announced_length // 16)):
                    wrong = rows_differ(hidden_states(model, tokens[:, :size], announced_length, training), whole[:, :size])
                    if wrong.any():
                        where = f"{case}, {mode(training)}, {announced_length} tokens announced (L is {train})"
                        position = int(wrong.any(0).nonzero()[0])
                        raise Fault(f"{where}: cutting after {size} tokens changes the output at position {position}")
                    tried += 1
    return f"the same after each of {tried} cuts"


@encoding_check("batches", advice="compute along T only, never across B; only random draws may differ from row to row")
def check_batches(subject: Subject) -> str:
    """The output of a sequence does not depend on the other rows of the batch, their number and order."""
    case, model = subject.main, subject.model()
    for training in (True, False):
        for width in (case.setup.train_tokens, case.setup.longest_tokens):
            tokens, others = case.sequences(6, width, seed=0), case.sequences(6, width, seed=100)
            others[2] = tokens[2]
            order = [3, 0, 5, 4, 1, 2]
            variants = {"with other rows": (others, [2], [2])}
            if not subject.cls.info.random:
                variants |= {"alone": (tokens[:1], [0], [0]), "in another order": (tokens[order], [*range(6)], order)}
            output = hidden_states(model, tokens, training=training)
            for what, (batch, rows, originals) in variants.items():
                found = hidden_states(model, batch, training=training)
                if rows_differ(found[rows], output[originals]).any():
                    raise Fault(f"{mode(training)}, {width} tokens: the output of a row is another one {what}")
    return "the same alone, with other rows and in another order"
