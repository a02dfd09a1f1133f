"""The harness: encodings, model, training, evaluation, suites and the command line."""
