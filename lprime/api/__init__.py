"""The functions of ``import lprime``. Their public names are those of the package ``lprime``, which loads them on first use."""
