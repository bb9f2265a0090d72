"""The network over which several machines reach each other.

Gloo listens on the address of the machine's own name. Where that is the loopback, as `127.0.1.1` in Debian's /etc/hosts and in
many containers, the other machines cannot reach it, and the processes wait for each other until a time-out.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable, Iterable

from .settings.errors import LaunchError

_SIOCGIFADDR = 0x8915
"""Linux: the IPv4 address of an interface."""
_PATIENCE = 10.0
"""Seconds of silence before a machine says what it waits for."""


def address_towards(host: str) -> str | None:
    """The address of this machine that `host` would see; None where its own name has an address, or none can be found."""
    if not _is_loopback(_addresses(socket.gethostname())):
        return None
    own = _source(host)
    return None if own is None or _is_loopback([own]) else own


def interface_towards(host: str) -> str | None:
    """The interface with the address that `host` would see; None where gloo needs no advice, or none can be given."""
    own = address_towards(host)
    return next((name for _, name in socket.if_nameindex() if own and _address(name) == own), None)


def _addresses(name: str) -> list[str]:
    try:
        return [str(found[4][0]) for found in socket.getaddrinfo(name, None)]
    except OSError:
        return []


def _is_loopback(addresses: Iterable[str]) -> bool:
    """Whether there is no other address among them."""
    return all(address.startswith("127.") or address == "::1" for address in addresses)


def _source(host: str) -> str | None:
    """The address from which packets to `host` would go; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((host, 9))
        except OSError:
            return None
        return str(probe.getsockname()[0])


def _address(interface: str) -> str | None:
    try:
        import fcntl
    except ImportError:  # Windows
        return None
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            answer = fcntl.ioctl(probe.fileno(), _SIOCGIFADDR, struct.pack("256s", interface.encode()[:15]))
        except OSError:
            return None
    return socket.inet_ntoa(answer[20:24])


def await_machine(host: str, port: int, seconds: float, say: Callable[[str], object]) -> None:
    """Return when the launcher of machine 0 answers.

    Raises:
        LaunchError: it does not within `seconds`; with what the last attempt met.
    """
    began, told = time.monotonic(), False
    while True:
        try:
            socket.create_connection((host, port), timeout=5).close()
            return
        except OSError as error:
            why = str(error.strerror or error)
        waited = time.monotonic() - began
        if waited >= seconds:
            raise LaunchError(
                f"machine 0 has not answered at {host}:{port} within {seconds:g} seconds ({why}): --main_process_ip must be its address "
                "and --main_process_port open, and `accel launch --machine_rank 0` must run there; --rdzv_conf timeout=SECONDS waits longer"
            )
        if waited >= _PATIENCE and not told:
            say(f"waiting for machine 0 at {host}:{port}, for up to {seconds:g} seconds ({why})")
            told = True
        time.sleep(min(1.0, seconds))
