"""Submissions: the folder that ``lprime submit`` writes, and its reader."""
