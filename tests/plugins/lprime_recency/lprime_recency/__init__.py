"""An example of a package that brings lprime an encoding: the entry point in its pyproject.toml is all it takes."""
