"""The connection to a Ray cluster."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from lexlip.errors import ConfigError, FixableError
from lexlip.machine.resources import cores

if TYPE_CHECKING:
    from ray.exceptions import RayError


WAIT = 10.0  # seconds that a head has to answer
_OF_JAVA = signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL


@contextmanager
def connected(address: str, processes: int = 0) -> Iterator[None]:
    """Be connected to a cluster in a `with` block; one that runs in this process already is left running.

    Args:
        address: "local" starts Ray on this machine alone, and ends it afterwards; "auto" is the cluster that
            this machine belongs to; otherwise that of the head, such as "10.0.0.1:6379".
        processes: that "local" must have room for, though there be fewer cores.

    Raises:
        ConfigError: there is no such cluster.
    """
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"  # read when Ray is imported: nothing is reported anywhere
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # else Ray warns that this will be so
    if address not in ("local", "auto"):
        _check_head(address)
    with _handlers_kept():
        import ray

    if ray.is_initialized():
        yield
        return
    given: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR", "configure_logging": True}
    if address == "local":
        given |= {"num_cpus": max(cores(), processes), "include_dashboard": False}
    try:
        with _handlers_kept():
            ray.init(address, **given)
    except Exception as error:  # of any kind: Ray's own classes, and plain ones
        if address == "local":
            raise ConfigError(f"Ray cannot start here ({_first_line(error)}): try again") from error
        with_token = os.environ.get("RAY_AUTH_MODE") == "token"
        raise ConfigError(
            f"there is no Ray cluster at {address!r} ({_first_line(error)}): start one with"
            " `ray start --head`, or give --ray local"
            + ("" if with_token else "; for one that asks for a token, set RAY_AUTH_MODE=token")
        ) from error
    try:
        yield
    finally:
        with _handlers_kept():
            ray.shutdown()


@contextmanager
def _handlers_kept() -> Iterator[None]:
    """Keep the handlers of signals that Java, if it runs, computes with: Ray puts its own in their place.

    Java takes a segmentation fault for a null pointer, and goes on; with Ray's handler the process would end.
    """
    if os.name != "posix":
        yield
        return
    library = ctypes.CDLL(None)
    before = {number: ctypes.create_string_buffer(256) for number in _OF_JAVA}  # larger than any sigaction
    for number, kept in before.items():
        library.sigaction(number, None, kept)
    try:
        yield
    finally:
        for number, kept in before.items():
            library.sigaction(number, kept, None)


def _check_head(address: str) -> None:
    """Raise ConfigError if nothing listens at HOST:PORT, for which Ray would wait for minutes."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), WAIT).close()
    except (OSError, ValueError) as error:
        why = "give local, auto or HOST:PORT" if isinstance(error, ValueError) else error.strerror or error
        raise ConfigError(f"there is no Ray cluster at {address!r} ({why})") from None


def cause_of(error: RayError) -> FixableError | None:
    """Return the error for the user that ended a call or an actor; None: it was another one."""
    from ray.exceptions import RayError

    cause: Any = error  # of a call, Ray raises what is both, and says all of the traceback
    while cause is not None and (isinstance(cause, RayError) or not isinstance(cause, FixableError)):
        cause = getattr(cause, "cause", None) or cause.__cause__
    return cause


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0].rstrip(".")
