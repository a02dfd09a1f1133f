"""Results as data frames: of runs, of probes."""
