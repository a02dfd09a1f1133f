"""Run ``lprime`` commands inside the test process."""

from support import lprime


def run_command(*arguments: object) -> tuple[int, str, str]:
    """Exit code, stdout and stderr."""
    done = lprime(*arguments)
    return done.returncode, done.stdout, done.stderr


def printed(*arguments: object) -> str:
    """Stdout of a command that succeeds."""
    code, out, err = run_command(*arguments)
    assert (code, err) == (0, "")
    return out


def refused(*arguments: object) -> str:
    """Stderr of a command that refuses its input: one line, exit code 2, nothing on stdout."""
    code, out, err = run_command(*arguments)
    assert (code, out) == (2, ""), err
    assert err.startswith("lprime: ") and err.count("\n") == 1 and "Traceback" not in err, err
    return err
