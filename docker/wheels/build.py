"""`make wheels`: one wheel for Linux on one kind of processor, which needs no compiler there.

It has the core, and an op library for each TensorFlow of tensorflows.py. They are linked with the
C and C++ libraries as they were (old_libraries.py), so they load wherever TensorFlow does. For
another processor than this one's Debian's cross compiler is used, of g++-aarch64-linux-gnu.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import old_libraries
import tensorflows
from machines import MACHINES, Machine

from kungfu_tf.native import build as native_build

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT = 3600.0  # seconds, on a slow machine that has other things to do
GLIBC = "{}_{}".format(*old_libraries.NEWEST["GLIBC"].numbers)

# Op libraries share TensorFlow's C++ library, so that an exception passes between them. The core
# shares nothing that is C++, and has a C++ library of its own: most of what it needs of one, in
# particular streams of today's strings, is not in those of that time.
CORE_LINK_FLAGS = "-static-libstdc++"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=ROOT / "dist", help="where the wheel goes")
    text = "the processor, as `uname -m` names it (%(default)s)"
    parser.add_argument("--machine", choices=MACHINES, default=platform.machine(), help=text)
    text = "only for the TensorFlow of this interpreter, which may be one for that processor"
    parser.add_argument("--python", help=text)
    options = parser.parse_args()
    if options.machine not in MACHINES:
        parser.error(f"it is made for {', '.join(MACHINES)}, and this is {options.machine}")
    machine = MACHINES[options.machine]
    if shutil.which(machine.tool("g++")) is None:
        parser.error(f"no {machine.tool('g++')} is on the PATH")
    directory = ROOT / "build" / "wheels" / machine.name
    if options.python:
        described = [native_build.query_tensorflow(options.python)]
    else:
        versions = tensorflows.VERSIONS
        described = [tensorflows.fetch(version, machine, directory) for version in versions]
    build(machine, directory, described, options.output)


def build(
    machine: Machine, directory: Path, described: list[native_build.TensorFlow], output: Path
) -> None:
    """Makes the wheel, with an op library for each of these TensorFlows."""
    old = directory / "old"
    old_libraries.make(old, machine)
    descriptions = directory / "tensorflows.json"
    descriptions.write_text(json.dumps([dataclasses.astuple(one) for one in described]))
    settings = directory / "setup.cfg"
    tag = f"manylinux_{GLIBC}_{machine.name}"
    settings.write_text(
        f"[build_native]\ntensorflows = {descriptions}\n[bdist_wheel]\nplat_name = {tag}\n"
    )
    inherited = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    environ = {
        **inherited,
        # Messages that name a file do so from the root of the sources.
        "CXX": f"{machine.tool('g++')} -ffile-prefix-map={ROOT}/= -L{old} -Wl,--gc-sections",
        "STRIP": machine.tool("strip"),
        "LDFLAGS": CORE_LINK_FLAGS,  # CMake asks for it, and what compiles the ops does not
        "DIST_EXTRA_CONFIG": str(settings),
    }
    wheel = [sys.executable, "-m", "pip", "wheel", "--no-deps", f"--wheel-dir={output}", str(ROOT)]
    subprocess.run(wheel, check=True, env=environ, timeout=TIMEOUT)


if __name__ == "__main__":
    main()
