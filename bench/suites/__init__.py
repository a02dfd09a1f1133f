"""Suites: YAML files that specify what is trained and tested, and the code that reads them."""
