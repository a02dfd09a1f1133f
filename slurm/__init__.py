"""Run grids on a SLURM cluster. ``executor`` is all of it behind ``bench``'s interface."""
