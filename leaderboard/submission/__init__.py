"""Submissions: the folder that ``lprime submit`` writes, and the checks of ``lprime verify``."""
