"""Encodings given on the command line: expand groups of them, and try them before any run starts."""


def expand(names: list[str]) -> list[str]:
    """``all`` and ``family:rotary`` as the built-in encodings they mean; other names stay.

    Raises:
        InputError: an unknown family, with the nearest match.
    """
    if not any(name == "all" or name.startswith("family:") for name in names):
        return names
    from bench.encodings import catalogue
    from tasks import unknown

    groups = {"all": list(catalogue())}
    for name, cls in catalogue().items():
        groups.setdefault(f"family:{cls.info.family}", []).append(name)
    for name in names:
        if name.startswith("family:") and name not in groups:
            raise unknown("family", name, groups)
    return [member for name in names for member in groups.get(name, [name])]


def try_encodings(names: list[str]) -> list[str]:
    """Load encodings and try the hooks of plugins and of encodings with settings; returns the names under which their results
    are stored.

    Raises:
        InputError: an unknown name, with the nearest match; a plugin that cannot be loaded, whose hooks cannot be called, or
            whose ``info`` or settings no result can hold.
    """
    from bench.check.contract import try_hooks
    from bench.check.subject import Subject, plugin_classes
    from bench.plugins.registry import get_encoding
    from bench.runs.run_one import encoding_record

    encodings = [get_encoding(name) for name in names]
    for cls in encodings:
        encoding_record(cls)  # caches the present source hash too, so that workers notice later changes
        if plugin_classes(cls) or "(" in cls.info.name:
            try_hooks(Subject(cls))
    return [cls.info.name for cls in encodings]
