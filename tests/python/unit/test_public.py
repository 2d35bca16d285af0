"""What `import kungfu_tf` shows, and that it does nothing."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

import kungfu_tf as kf

MODULES = [kf, kf.callbacks, kf.data, kf.errors, kf.initializer, kf.ops, kf.optimizers]


@pytest.mark.parametrize("module", MODULES)
def test_public_names_are_importable_and_documented(module: object) -> None:
    names = module.__all__
    assert len(names) == len(set(names))
    for name in names:
        assert inspect.getdoc(getattr(module, name)), name
        assert name in dir(module)


@pytest.mark.parametrize("name", kf.ops.__all__)
def test_only_what_is_required_is_positional(name: str) -> None:
    for parameter in inspect.signature(getattr(kf.ops, name)).parameters.values():
        is_optional = parameter.default is not inspect.Parameter.empty
        assert is_optional == (parameter.kind is inspect.Parameter.KEYWORD_ONLY)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="all_reduse"):
        _ = kf.all_reduse


def run(program: str) -> str:
    """What a new process prints."""
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=200
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_importing_does_nothing() -> None:
    program = (
        "import sys, threading, kungfu_tf, kungfu_tf.launcher.main; "
        "print('tensorflow' in sys.modules, threading.active_count(), "
        "'libkungfu' in open('/proc/self/maps').read())"
    )
    assert run(program) == "False 1 False\n"


def test_the_process_api_needs_no_tensorflow() -> None:
    program = (
        "import sys, kungfu_tf as kf; kf.init(); kf.barrier(); "
        "print(kf.rank(), kf.size(), kf.local_rank(), kf.local_size(), kf.host_count(), "
        "kf.epoch(), kf.is_root(), kf.run_on_root(lambda: 'ran'), 'tensorflow' in sys.modules)"
    )
    assert run(program) == "0 1 0 1 1 0 True ran False\n"


def test_after_shutdown_there_is_no_peer() -> None:
    program = (
        "import kungfu_tf as kf; kf.init(); kf.shutdown(); kf.shutdown()\n"
        "try: kf.rank()\n"
        "except kf.errors.FailedPreconditionError as error: print(error)\n"
        "try: kf.barrier()\n"
        "except kf.errors.FailedPreconditionError as error: print(error)"
    )
    assert run(program).count("shut down") == 2


def test_a_forked_child_is_told_that_it_is_no_peer() -> None:
    program = (
        "import os, kungfu_tf as kf; kf.init(); pid = os.fork()\n"
        "try: kf.rank()\n"
        "except kf.errors.FailedPreconditionError as error: print(error, flush=True)\n"
        "if pid: os.waitpid(pid, 0)"
    )
    assert "forked" in run(program)


def test_info_prints_every_variable() -> None:
    from kungfu_tf import _lib, config

    text = run("import sys, kungfu_tf.info as i; i.main(); assert 'tensorflow' not in sys.modules")
    for name in [name for name, _ in _lib.environment()] + [s.name for s in config.SETTINGS]:
        assert f"  {name} " in text
    assert kf.__version__ in text


def test_info_keeps_the_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUNGFU_SECRET", "hidden from the screen")
    assert "hidden" not in run("import kungfu_tf.info as i; i.main()")
