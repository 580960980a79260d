"""Names as files of fsspec: ``trib:///lab/readings.parquet``.

The node serves them: ``storage_options={"node": "http://127.0.0.1:8080", "token": …}``, else ``$TRIB_HTTP`` and
``$TRIB_TOKEN``. A read fetches the chunks with its bytes, over all paths, and every byte is verified by the node.
"""

from __future__ import annotations

import asyncio
import os
import weakref
from datetime import datetime, timezone
from typing import Any

from fsspec.asyn import AsyncFileSystem, sync
from fsspec.spec import AbstractBufferedFile

from .client import Client, Entry, NotFound, TribError

#: Bytes that a file object reads at once: a few chunks.
_BLOCK_BYTES = 4 << 20


class TribFileSystem(AsyncFileSystem):  # type: ignore[misc]
    """The names of a network, as a node sees them. Writing a file uploads and publishes it; removing withdraws the name."""

    protocol = "trib"
    root_marker = "/"
    cachable = True

    def __init__(self, node: str | None = None, token: str | None = None, **options: Any) -> None:
        super().__init__(**options)
        self._client = Client(node, token)
        if not self.asynchronous:
            weakref.finalize(self, _close, self.loop, self._client)

    @property
    def client(self) -> Client:
        """The client that it uses."""
        return self._client

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        if isinstance(path, list):
            return [cls._strip_protocol(one) for one in path]
        path = os.fspath(path)
        if path.startswith("trib://"):
            path = path[len("trib://") :]
        return "/" + path.strip("/")

    async def _info(self, path: str, **_: Any) -> dict[str, Any]:
        path = self._strip_protocol(path)
        parent = path.rpartition("/")[0] or "/"
        # A name that others are below is a folder here; that it is no object takes longer to find out.
        if path == "/" or any(
            entry["name"] == path and entry["type"] == "directory" for entry in await self._below(parent)
        ):
            return _folder(path)
        try:
            return dict(await self._client.info(path))
        except NotFound:
            raise FileNotFoundError(path) from None

    async def _ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
        path = self._strip_protocol(path)
        entries = await self._below(path)
        if not entries:
            info = await self._info(path)
            entries = [info] if info["type"] == "file" else []  # type: ignore[list-item]
        return [dict(entry) for entry in entries] if detail else [entry["name"] for entry in entries]

    async def _below(self, path: str) -> list[Entry]:
        try:
            return await self._client.ls(path)
        except NotFound:
            return []
        except TribError as error:
            # A family without listings, or a node that refuses to list.
            if error.kind in ("usage", "incomplete") or error.status in (401, 403):
                return []
            raise

    def modified(self, path: str) -> datetime:
        """Its version, if that is a time; else the beginning of time: what caches by it asks for the tag."""
        found: datetime | None = self.info(path)["modified"]
        return found or datetime.fromtimestamp(0, timezone.utc)

    async def _cat_file(self, path: str, start: int | None = None, end: int | None = None, **_: Any) -> bytes:
        path = self._strip_protocol(path)
        if (start is not None and start < 0) or (end is not None and end < 0):
            size = (await self._client.info(path))["size"] or 0
            start = max(0, size + start) if start is not None and start < 0 else start
            end = max(0, size + end) if end is not None and end < 0 else end
        return await self._client.read(path, start or 0, end)

    async def _get_file(self, rpath: str, lpath: str, **_: Any) -> None:
        rpath = self._strip_protocol(rpath)
        if (await self._info(rpath))["type"] == "directory":
            os.makedirs(lpath, exist_ok=True)
        else:
            await self._client.get(rpath, lpath)

    async def _put_file(self, lpath: str, rpath: str, **_: Any) -> None:
        if not os.path.isdir(lpath):
            await self._client.put(lpath, self._strip_protocol(rpath))

    async def _pipe_file(self, path: str, value: bytes, **_: Any) -> None:
        await self._client.put(value, self._strip_protocol(path))

    async def _rm_file(self, path: str, **_: Any) -> None:
        await self._client.remove(self._strip_protocol(path))

    async def _mkdir(self, path: str, create_parents: bool = True, **_: Any) -> None:
        """Names need no folders."""

    async def _makedirs(self, path: str, exist_ok: bool = False) -> None:
        """Names need no folders."""

    def _open(
        self,
        path: str,
        mode: str = "rb",
        block_size: int | None = None,
        autocommit: bool = True,
        cache_options: dict[str, Any] | None = None,
        **options: Any,
    ) -> TribFile:
        if mode not in ("rb", "wb"):
            raise ValueError(f"mode '{mode}': objects are read, or written anew")
        return TribFile(
            self,
            self._strip_protocol(path),
            mode,
            block_size or _BLOCK_BYTES,
            autocommit,
            cache_options=cache_options,
            **options,
        )


class TribFile(AbstractBufferedFile):  # type: ignore[misc]
    """An object as a file: reads fetch ranges, and what is written is published when the file is closed."""

    def _fetch_range(self, start: int, end: int) -> bytes:
        data: bytes = sync(self.fs.loop, self.fs._client.read, self.path, start, end)
        return data

    def _initiate_upload(self) -> None:
        self._parts: list[bytes] = []

    def _upload_chunk(self, final: bool = False) -> bool:
        self.buffer.seek(0)
        self._parts.append(self.buffer.read())
        if final:
            sync(self.fs.loop, self.fs._client.put, b"".join(self._parts), self.path)
            self._parts.clear()
        return True


def _close(loop: asyncio.AbstractEventLoop, client: Client) -> None:
    """Closes the connections of a file system that is gone."""
    if loop.is_running():
        asyncio.run_coroutine_threadsafe(client.close(), loop)


def _folder(path: str) -> dict[str, Any]:
    return {"name": path, "type": "directory", "size": None, "etag": None, "modified": None}
