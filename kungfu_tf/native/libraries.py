"""Opens the native libraries, and turns the core's status codes into exceptions.

kungfu_tf/lib/libkungfu.so.1          the core: `core()`, without TensorFlow
kungfu_tf/lib/libkungfu_ops-2.21.so   the kernels, one file for each TensorFlow: `load_ops()`
kungfu_tf/lib/src/ops/                the sources for any other TensorFlow, compiled at first use

The op library refers to the core by its SONAME, so the core must be loaded before it, once and from
one place.
"""

from __future__ import annotations

import atexit
import ctypes
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

from kungfu_tf import config, errors
from kungfu_tf.native import build
from kungfu_tf.upstream import versions

ABI_VERSION = 16
LIBRARY_DIR = Path(__file__).resolve().parents[1] / "lib"

# kungfu_done and kungfu_allocate of kungfu.h
Done = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p)
Allocate = ctypes.CFUNCTYPE(
    ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(ctypes.c_uint64), ctypes.c_int
)


class Options(ctypes.Structure):
    """kungfu_options of kungfu.h."""

    _fields_ = [
        ("name", ctypes.c_char_p),
        ("dtype", ctypes.c_int32),
        ("op", ctypes.c_int32),
        ("root", ctypes.c_int32),
        ("shape_digest", ctypes.c_uint64),
        ("step", ctypes.c_uint64),
        ("timeout", ctypes.c_double),
        ("parents", ctypes.POINTER(ctypes.c_int32)),
        ("num_parents", ctypes.c_int32),
        ("norms", ctypes.c_void_p),
        ("exchange", ctypes.c_char_p),
        ("exchange_size", ctypes.c_int32),
        ("group", ctypes.c_uint64),
    ]


class Span(ctypes.Structure):
    """kungfu_span of kungfu.h."""

    _fields_ = [
        ("send", ctypes.c_void_p),
        ("recv", ctypes.c_void_p),
        ("count", ctypes.c_uint64),
    ]


UINT8, INT64, MAX = 0, 7, 3  # of kungfu_dtype and kungfu_reduce_op


class Statistics(ctypes.Structure):
    """kungfu_statistics of kungfu.h."""

    _fields_ = [
        (name, ctypes.c_uint64)
        for name in (
            "operations",
            "failures",
            "bytes_sent",
            "bytes_received",
            "refused_frames",
            "connections",
            "direct",
            "shared_bytes",
            "pending",
        )
    ]


class Setting(ctypes.Structure):
    """kungfu_setting of kungfu.h."""

    _fields_ = [
        ("name", ctypes.c_char_p),
        ("meaning", ctypes.c_char_p),
        ("type", ctypes.c_char_p),
        ("unit", ctypes.c_char_p),
        ("default_text", ctypes.c_char_p),
        ("internal", ctypes.c_int32),
        ("secret", ctypes.c_int32),
    ]


_FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {
    "kungfu_abi_version": (ctypes.c_int, []),
    "kungfu_version": (ctypes.c_char_p, []),
    "kungfu_last_error": (ctypes.c_char_p, []),
    "kungfu_init": (ctypes.c_int, []),
    "kungfu_shutdown": (ctypes.c_int, []),
    "kungfu_rank": (ctypes.c_int, []),
    "kungfu_size": (ctypes.c_int, []),
    "kungfu_local_rank": (ctypes.c_int, []),
    "kungfu_local_size": (ctypes.c_int, []),
    "kungfu_host_count": (ctypes.c_int, []),
    "kungfu_membership_version": (ctypes.c_int, []),
    "kungfu_agreed_version": (ctypes.c_int, []),
    "kungfu_agreed_size": (ctypes.c_int, []),
    "kungfu_elastic": (ctypes.c_int, []),
    "kungfu_joining": (ctypes.c_int, []),
    "kungfu_outdated": (ctypes.c_int, []),
    "kungfu_epoch": (ctypes.c_int64, []),
    "kungfu_interrupted": (ctypes.c_int, []),
    "kungfu_peer_name": (ctypes.c_char_p, [ctypes.c_int]),
    "kungfu_add_group": (
        None,
        [
            *(ctypes.POINTER(ctypes.c_int32), ctypes.c_int, ctypes.POINTER(ctypes.c_uint64)),
            *(Done, ctypes.c_void_p),
        ],
    ),
    "kungfu_remove_group": (None, [ctypes.c_uint64]),
    "kungfu_group_rank": (ctypes.c_int, [ctypes.c_uint64]),
    "kungfu_longest_name": (ctypes.c_size_t, []),
    "kungfu_barrier": (ctypes.c_uint64, [ctypes.POINTER(Options), Done, ctypes.c_void_p]),
    "kungfu_all_reduce": (
        ctypes.c_uint64,
        [ctypes.POINTER(Span), ctypes.c_int, ctypes.POINTER(Options), Done, ctypes.c_void_p],
    ),
    "kungfu_all_gather": (
        ctypes.c_uint64,
        [
            *(ctypes.c_char_p, ctypes.c_uint64, ctypes.POINTER(Options)),
            *(Allocate, Done, ctypes.c_void_p),
        ],
    ),
    "kungfu_strategy_name": (ctypes.c_char_p, [ctypes.c_int]),
    "kungfu_join": (None, [ctypes.POINTER(ctypes.c_int), Done, ctypes.c_void_p]),
    "kungfu_interrupt": (None, [ctypes.c_int, ctypes.c_char_p]),
    "kungfu_begin_epoch": (None, [ctypes.c_char_p, Done, ctypes.c_void_p]),
    "kungfu_propose_size": (None, [ctypes.c_int, Done, ctypes.c_void_p]),
    "kungfu_want_size": (None, [ctypes.c_int, Done, ctypes.c_void_p]),
    "kungfu_propose_from_url": (None, [Done, ctypes.c_void_p]),
    "kungfu_give_notice": (None, [Done, ctypes.c_void_p]),
    "kungfu_leave": (None, [Done, ctypes.c_void_p]),
    "kungfu_advance": (None, [Done, ctypes.c_void_p]),
    "kungfu_cancel": (None, [ctypes.c_uint64, ctypes.c_int, ctypes.c_char_p]),
    "kungfu_digest": (ctypes.c_uint64, [ctypes.c_char_p, ctypes.c_size_t]),
    "kungfu_get_statistics": (None, [ctypes.POINTER(Statistics)]),
    "kungfu_completed": (ctypes.c_uint64, [ctypes.c_char_p]),
    "kungfu_start_timeline": (ctypes.c_int, [ctypes.c_char_p]),
    "kungfu_stop_timeline": (ctypes.c_int, []),
    "kungfu_get_setting": (ctypes.POINTER(Setting), [ctypes.c_int]),
    "kungfu_check_setting": (ctypes.c_int, [ctypes.c_char_p, ctypes.c_char_p]),
}

_lock = threading.Lock()
_core: ctypes.CDLL | None = None
_ops: ModuleType | None = None


def core() -> ctypes.CDLL:
    """The core, loaded at the first call.

    Raises:
        LibraryError: If it is missing, or its version is not that of this Python code.
    """
    global _core
    with _lock:
        if _core is None:
            _core = _load_core()
        return _core


def _load_core() -> ctypes.CDLL:
    path = LIBRARY_DIR / build.CORE_NAME
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        message = f"cannot load the core (in a source checkout `make build` makes it): {error}"
        raise errors.LibraryError(errors.linked("no-core", message)) from error
    library.kungfu_abi_version.restype = ctypes.c_int
    abi = library.kungfu_abi_version()
    if abi != ABI_VERSION:
        raise errors.LibraryError(
            f"{path} has interface {abi} and this kungfu_tf needs {ABI_VERSION}: they come from "
            "different versions; install kungfu_tf again"
        )
    for name, (result, arguments) in _FUNCTIONS.items():
        function = getattr(library, name)
        function.restype = result
        function.argtypes = arguments
    # The core's threads must not outlive Python's.
    atexit.register(library.kungfu_shutdown)
    return library


def check(code: int) -> None:
    """Raises the error of the thread's last call, unless `code` is 0."""
    if code != 0:
        raise errors.from_code(code, last_error())


def last_error() -> str:
    return core().kungfu_last_error().decode(errors="replace")


def statistics() -> dict[str, int]:
    """The counters of kungfu_statistics, by which tests check which operations have run."""
    result = Statistics()
    core().kungfu_get_statistics(ctypes.byref(result))
    return {field[0]: getattr(result, field[0]) for field in Statistics._fields_}


def completed(name: str) -> int:
    """How many operations named `name` have succeeded. It is for tests."""
    return core().kungfu_completed(name.encode())


def op_libraries() -> dict[Path, str]:
    """The op libraries of the package, and the TensorFlow that each was built for."""
    markers = {path: build.read_marker(path) for path in sorted(LIBRARY_DIR.glob("*.so"))}
    return {path: marker.tensorflow for path, marker in markers.items() if marker}


def load_ops() -> ModuleType:
    """The Python functions of the op library that fits the running TensorFlow.

    It is loaded at the first call, and compiled first if the package has none that fits.

    Raises:
        LibraryError: If none fits and none can be compiled, or it cannot be loaded.
        UnsupportedVersionError: If TensorFlow is too old.
    """
    global _ops
    core()
    with _lock:
        if _ops is None:
            _ops = _load_ops()
        return _ops


def _load_ops() -> ModuleType:
    import tensorflow as tf

    versions.check_tensorflow(tf.__version__)
    # The choice is made by the libraries' markers: a library cannot be unloaded, and a second one
    # would register the same ops again.
    path = _packaged_library(tf.__version__) or _compiled_library(tf)
    try:
        return tf.load_op_library(str(path))
    except tf.errors.OpError as error:
        raise errors.LibraryError(
            f"TensorFlow {tf.__version__} cannot load {path}: {error.message}"
        ) from error


def share_tensors() -> int:
    """Puts TensorFlow's large tensors into memory that the host's other peers can reach.

    It can be done once, before TensorFlow makes its first tensor. It compiles nothing.

    Returns:
        1 if that is done from now on; 0 if there is no such memory, or no op library that could do
        it; -1 if it is too late.

    Raises:
        LibraryError: If the op library cannot be loaded.
    """
    import tensorflow as tf

    path = _packaged_library(tf.__version__)
    if path is None:
        return 0
    load_ops()
    share = ctypes.CDLL(str(path)).kungfu_share_tensors
    share.restype = ctypes.c_int
    return int(share())


def _packaged_library(version: str) -> Path | None:
    for path, built_for in op_libraries().items():
        if build.minor_version(built_for) == build.minor_version(version):
            return path
    return None


def _compiled_library(tf: ModuleType) -> Path:
    tensorflow = build.TensorFlow(
        tf.__version__, tf.sysconfig.get_compile_flags(), tf.sysconfig.get_link_flags()
    )
    try:
        return build.cached_op_library(
            config.CACHE_DIR.get(),
            core_dir=LIBRARY_DIR,
            source_dir=source_dir(),
            tensorflow=tensorflow,
            compiler=config.COMPILER.get(),
            timeout=config.BUILD_TIMEOUT.get(),
        )
    except build.BuildError as error:
        raise errors.LibraryError(str(error)) from error


def source_dir() -> Path:
    """The directory of `ops/` to compile: the package's copy, or the checkout around it."""
    for directory in (LIBRARY_DIR / "src", LIBRARY_DIR.parents[1]):
        if (directory / "ops" / "tensorflow").is_dir():
            return directory
    raise errors.LibraryError(f"the sources of the ops are missing: {LIBRARY_DIR / 'src'}")
