"""Installed where there is a TensorFlow."""

from __future__ import annotations

import pytest

from kungfu_tf import info
from kungfu_tf.native import build

# The core is compiled, beside whatever else there is to do.
pytestmark = [pytest.mark.timeout(900), pytest.mark.exhaustive]


def test_it_brings_the_op_library_of_the_tensorflow_that_is_there(environment) -> None:
    environment.show_tensorflow()
    before = environment.files()
    ops = build.library_name(info.tensorflow_version())
    assert environment.install() == {"libkungfu.so.1", ops}
    assert "compiling the ops" not in environment.sums(2)
    assert not environment.cache.exists()

    environment.run("pip", "uninstall", "--yes", "kungfu_tf")
    assert environment.files() == before
