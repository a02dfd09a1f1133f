"""Run ``lprime`` commands inside the test process."""

import pytest

from lprime.cli import main


def run_command(capsys: pytest.CaptureFixture, *arguments: object) -> tuple[int, str, str]:
    """Exit code, stdout and stderr."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as done:
        main([str(argument) for argument in arguments])
    return done.value.code, *capsys.readouterr()


def printed(capsys: pytest.CaptureFixture, *arguments: object) -> str:
    """Stdout of a command that succeeds."""
    code, out, err = run_command(capsys, *arguments)
    assert (code, err) == (0, "")
    return out


def refused(capsys: pytest.CaptureFixture, *arguments: object) -> str:
    """Stderr of a command that refuses its input: one line, exit code 2, nothing on stdout."""
    code, out, err = run_command(capsys, *arguments)
    assert (code, out) == (2, ""), err
    assert err.startswith("lprime: ") and err.count("\n") == 1 and "Traceback" not in err, err
    return err
