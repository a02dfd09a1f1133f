"""Run grids on a SLURM cluster, with submitit.

Modules, in order of use: ``cluster`` (a site's YAML file), ``estimate`` and ``split_jobs`` (runs to jobs),
``launch`` and ``submit`` (jobs into the queue, exactly once), ``records`` (files in the shared folder), ``job`` (work on a
node), ``commands`` (squeue, sacct, …), ``status`` (the state of every run), ``status_text`` (``lprime status``,
``lprime logs``), ``executor`` (all of it behind ``bench``'s interface), ``dry_run`` (what it would do).
"""
