"""Installed where there is no TensorFlow yet."""

from __future__ import annotations

import shutil

import pytest

pytestmark = pytest.mark.timeout(900)  # the core is compiled, beside whatever else there is to do


def test_the_first_use_compiles_once_whoever_comes_first(environment) -> None:
    environment.hide_tensorflow()
    before = environment.files()
    assert environment.install() == {"libkungfu.so.1"}
    assert environment.run("kungfu-run", "-np", "1", "echo", "it runs").endswith("it runs\n")

    environment.show_tensorflow()
    assert environment.sums(2).count("compiling the ops") == 1
    assert "compiling the ops" not in environment.sums(1)
    assert len(list(environment.cache.rglob("*.so"))) == 1

    environment.run("pip", "uninstall", "--yes", "kungfu_tf")
    environment.hide_tensorflow()
    shutil.rmtree(environment.cache)
    assert environment.files() == before
