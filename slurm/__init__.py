"""The cluster launcher: carries ``bench``'s runs to SLURM and back. SLURM is the scheduler; submitit launches.

In the order in which a grid meets them: ``executor`` (what ``bench`` is handed), ``cluster`` (a site's YAML), ``estimate`` and
``shares`` (runs cut into jobs), ``records`` (what the shared folder knows), ``launch`` and ``submit`` (into the queue, exactly
once), ``job`` (at work on a node), ``site`` (questions to SLURM), ``states`` (files and SLURM's word, merged), ``report``.
"""
