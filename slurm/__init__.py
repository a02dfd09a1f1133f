"""Run grids on a SLURM cluster.

Modules, in order of use: ``cluster`` (a site's YAML file), ``submit`` (runs to jobs, jobs into the queue), ``script`` (what
sbatch is given), ``records`` (files in the shared folder), ``job`` (work on a node), ``commands`` (squeue, sacct, …),
``status`` (the state of every run), ``text`` (``lprime status``, ``lprime logs``), ``executor`` (all of it behind ``bench``'s
interface), ``dry_run`` (what it would do).
"""
