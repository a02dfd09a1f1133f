"""The benchmark harness: encodings and plugins, suites, model, training, evaluation, runs, checks and speed measurements."""
