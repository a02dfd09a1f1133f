"""Run grids on a SLURM cluster.

Modules, in order of use: ``cluster`` (a site's YAML file), ``submit`` (runs to jobs, jobs into the queue), ``records`` (files
in the shared folder), ``job`` (work on a node), ``commands`` (squeue, sacct, …), ``status`` (the state of every run,
``lprime status``), ``executor`` (all of it behind ``bench``'s interface).
"""
