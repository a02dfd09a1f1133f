"""The cluster launcher's room: an executor (``bench.events.Executor``) that takes runs to SLURM. None exists yet."""
