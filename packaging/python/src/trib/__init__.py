"""A client for nodes of Tributary: names in, verified bytes out.

`Client` speaks the HTTP API of a node (the section ``[http]`` of its config), with asyncio. `TribFileSystem` makes names
files of fsspec, under ``trib://``.
"""

import fsspec

from .client import (
    Client,
    Entry,
    Event,
    Incomplete,
    InUse,
    NotFound,
    Refused,
    TribError,
    Unauthorized,
)
from .fs import TribFileSystem

# Where the package is not installed, its entry point is not there.
fsspec.register_implementation(TribFileSystem.protocol, TribFileSystem, clobber=True)

__all__ = [
    "Client",
    "Entry",
    "Event",
    "InUse",
    "Incomplete",
    "NotFound",
    "Refused",
    "TribError",
    "TribFileSystem",
    "Unauthorized",
]
