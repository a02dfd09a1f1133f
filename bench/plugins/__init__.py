"""Encodings by name, plugins included: references, loading, registration, source hashes, and the template of a new encoding."""
