"""`make wheels`: one wheel for x86-64 Linux, which needs no compiler where it is installed.

It has the core, and an op library for each TensorFlow of tensorflows.py. They are linked with the
C and C++ libraries as they were (old_libraries.py), so they load wherever TensorFlow does.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import old_libraries
import tensorflows

from kungfu_tf.native import build as native_build

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT = 3600.0  # seconds, on a slow machine that has other things to do
PLATFORM = "manylinux_{}_{}_x86_64".format(*old_libraries.NEWEST["GLIBC"].numbers)
COMPILER = "g++"

# Op libraries share TensorFlow's C++ library, so that an exception passes between them. The core
# shares nothing that is C++, and has a C++ library of its own: most of what it needs of one, in
# particular streams of today's strings, is not in those of that time.
CORE_LINK_FLAGS = "-static-libstdc++"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=ROOT / "dist", help="where the wheel goes")
    parser.add_argument(
        "--installed", action="store_true", help="only for the TensorFlow of this Python"
    )
    options = parser.parse_args()
    if platform.machine() != "x86_64":
        parser.error(f"it is made for x86_64, and this machine is {platform.machine()}")
    directory = ROOT / "build" / "wheels"
    if options.installed:
        described = [native_build.query_tensorflow(sys.executable)]
    else:
        described = [tensorflows.fetch(version, directory) for version in tensorflows.VERSIONS]
    build(directory, described, options.output)


def build(directory: Path, described: list[native_build.TensorFlow], output: Path) -> None:
    """Makes the wheel, with an op library for each of these TensorFlows."""
    old = directory / "old"
    old_libraries.make(old, COMPILER)
    descriptions = directory / "tensorflows.json"
    descriptions.write_text(json.dumps([dataclasses.astuple(one) for one in described]))
    settings = directory / "setup.cfg"
    settings.write_text(
        f"[build_native]\ntensorflows = {descriptions}\n[bdist_wheel]\nplat_name = {PLATFORM}\n"
    )
    inherited = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    environ = {
        **inherited,
        # Messages that name a file do so from the root of the sources.
        "CXX": f"{COMPILER} -ffile-prefix-map={ROOT}/= -L{old} -Wl,--gc-sections",
        "LDFLAGS": CORE_LINK_FLAGS,  # CMake asks for it, and what compiles the ops does not
        "DIST_EXTRA_CONFIG": str(settings),
    }
    wheel = [sys.executable, "-m", "pip", "wheel", "--no-deps", f"--wheel-dir={output}", str(ROOT)]
    subprocess.run(wheel, check=True, env=environ, timeout=TIMEOUT)


if __name__ == "__main__":
    main()
