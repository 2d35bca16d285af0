"""The processors that wheels are made for."""

from __future__ import annotations

import platform
from dataclasses import dataclass


@dataclass(frozen=True)
class Machine:
    """The differences between processors, for a builder.

    Attributes:
        name: The name that `uname -m` and the tags of wheels have for it.
        loader: The file of the C library's loader.
        tensorflow: The package on PyPI whose TensorFlow needs no GPU.
        renamed: The same of some minor versions that have another one.
    """

    name: str
    loader: str
    tensorflow: str
    renamed: dict[str, str]

    def tool(self, name: str) -> str:
        """The command of a compiler or linker, which may run on another processor."""
        return name if self.name == platform.machine() else f"{self.name}-linux-gnu-{name}"

    def package(self, version: str) -> str:
        """The requirement, for pip, of one version of TensorFlow."""
        minor = version.rsplit(".", 1)[0]
        return f"{self.renamed.get(minor, self.tensorflow)}=={version}"

    def platforms(self, *glibc: int) -> list[str]:
        """Pip's options for wheels that need glibc 2.17, or 2 and one of these."""
        tags = [f"manylinux2014_{self.name}", f"manylinux_2_17_{self.name}"]
        tags += [f"manylinux_2_{minor}_{self.name}" for minor in glibc]
        return [f"--platform={tag}" for tag in tags]


MACHINES = {
    machine.name: machine
    for machine in (
        Machine("x86_64", "ld-linux-x86-64.so.2", "tensorflow-cpu", {}),
        Machine("aarch64", "ld-linux-aarch64.so.1", "tensorflow", {"2.15": "tensorflow-cpu-aws"}),
    )
}
