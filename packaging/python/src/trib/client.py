"""The asyncio client.

Events and answers are the JSON objects of ``docs/reference/events.schema.json``, as dictionaries: fields are only added
within a version of the API.
"""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
from collections.abc import AsyncIterator, Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, TypedDict
from urllib.parse import quote

import aiohttp

#: A notice of a node: an object with a field ``event``.
Event = dict[str, Any]

_DEFAULT_URL = "http://127.0.0.1:8080"
_API = "/api/v1"
#: Bytes that are read from a connection at a time.
_PIECE_BYTES = 1 << 20
#: Seconds before a stream of events is asked for again, at first and at most.
_RETRY_SECONDS = 0.5
_RETRY_SECONDS_MAX = 30.0


class Entry(TypedDict):
    """What is known of a name."""

    name: str
    #: ``file`` or ``directory``.
    type: str
    #: Bytes; ``None`` of a directory.
    size: int | None
    #: Tag of the content: the same bytes have the same one.
    etag: str | None
    #: Its version, if that is a time.
    modified: datetime | None


class TribError(Exception):
    """A request failed: what failed, on what, why."""

    def __init__(self, message: str, kind: str = "", hint: str | None = None, status: int = 0) -> None:
        super().__init__(f"{message}\n  hint: {hint}" if hint else message)
        #: The kind of failure, such as ``not-found``.
        self.kind = kind
        #: What to try.
        self.hint = hint
        #: The status of HTTP; 0 if there was no answer.
        self.status = status


class NotFound(TribError, FileNotFoundError):
    """The network has no such object, or there is no such thing."""


class Incomplete(TribError):
    """It started and could not be completed; verified chunks are kept."""


class Refused(TribError, PermissionError):
    """The network refused, or the node does not do this for whoever asks."""


class Unauthorized(Refused):
    """The token is missing or another one."""


class InUse(TribError):
    """Too many requests, streams or clients at a time."""


_KINDS: dict[str, type[TribError]] = {
    "not-found": NotFound,
    "incomplete": Incomplete,
    "rejected": Refused,
    "in-use": InUse,
}
_STATUSES: dict[int, type[TribError]] = {
    401: Unauthorized,
    403: Refused,
    404: NotFound,
    502: Incomplete,
    503: InUse,
    504: Incomplete,
}


def _failure(status: int, text: str) -> TribError:
    """The error that an answer says."""
    try:
        error: Any = json.loads(text)
    except ValueError:
        error = None
    if isinstance(error, dict) and "message" in error:
        kind = str(error.get("kind", ""))
        made = Unauthorized if status == 401 else _KINDS.get(kind) or _STATUSES.get(status, TribError)
        return made(str(error["message"]), kind, error.get("hint"), status)
    return _STATUSES.get(status, TribError)(text.strip() or f"the node answered {status}", "", None, status)


def _check(event: Event) -> Event:
    """Raises the error that a stream ends with."""
    if event.get("event") == "error":
        kind = str(event.get("kind", ""))
        raise _KINDS.get(kind, TribError)(str(event.get("message")), kind, event.get("hint"))
    return event


def _refuse_folder(name: str, status: int) -> None:
    if 300 <= status < 400:
        raise TribError(f"'{name}' is a folder", "usage", "list it with ls()", status)


def object_path(name: str) -> str:
    """The path under which a gateway serves a name or a reference (``trib:NAME?publisher=KEY``).

    >>> object_path("/lab/a b")
    '/lab/a%20b'
    >>> object_path("/metrics")
    '/%6Detrics'
    >>> object_path("trib:/lab/a b?publisher=ed25519:00")
    '/lab/a%20b?publisher=ed25519:00'
    """
    query = ""
    if name.startswith("trib:"):
        name, mark, fields = name.removeprefix("trib:").partition("?")
        query = mark + fields
    if not name.startswith("/"):
        raise ValueError(f"'{name}' is not a name: names begin with a slash")
    # What the name encodes stays encoded.
    path = quote(name, safe="/%:=~!$&'()*+,;@")
    # These paths of a node are its own; an object of such a name has a letter of it encoded.
    first = path.split("/", 2)[1]
    if first in ("api", "dashboard", "metrics"):
        path = f"/%{ord(first[0]):02X}{path[2:]}"
    return path + query


class Client:
    """A node, by its HTTP API.

    ``url`` is where the node listens (``listen`` of ``[http]``), by default ``$TRIB_HTTP`` or ``http://127.0.0.1:8080``;
    ``token`` is the content of its ``token_file``, by default ``$TRIB_TOKEN``. Without a token only the user that runs the
    node may use the API, over loopback; objects are readable for whoever reaches the listener.

    Use it as a context manager, or call :meth:`close`.
    """

    def __init__(self, url: str | None = None, token: str | None = None, timeout: float = 60.0) -> None:
        self.url = (url or os.environ.get("TRIB_HTTP") or _DEFAULT_URL).rstrip("/")
        self._token = token or os.environ.get("TRIB_TOKEN") or None
        #: Seconds without a byte after which a request fails. Transfers may take as long as they like.
        self._timeout = aiohttp.ClientTimeout(total=None, sock_connect=timeout, sock_read=timeout)
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes its connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    # Objects.

    async def info(self, name: str) -> Entry:
        """What is known of a name: whether it is a file or a folder, and its size."""
        async with self._request("HEAD", object_path(name), allow_redirects=False) as answer:
            if 300 <= answer.status < 400:
                return {"name": name, "type": "directory", "size": None, "etag": None, "modified": None}
            size = answer.headers.get("Content-Length")
            return {
                "name": name,
                "type": "file",
                "size": int(size) if size is not None else None,
                "etag": answer.headers.get("ETag"),
                "modified": _date(answer.headers.get("Last-Modified")),
            }

    async def read(self, name: str, start: int = 0, stop: int | None = None) -> bytes:
        """The bytes of an object from ``start`` up to ``stop``; only the chunks with them are fetched."""
        if stop is not None and stop <= start:
            return b""
        headers = {}
        if start or stop is not None:
            headers["Range"] = f"bytes={start}-{'' if stop is None else stop - 1}"
        async with self._request(
            "GET", object_path(name), headers=headers, empty_at_end=True, allow_redirects=False
        ) as answer:
            _refuse_folder(name, answer.status)
            return b"" if answer.status == 416 else await answer.read()

    async def stream(self, name: str) -> AsyncIterator[bytes]:
        """The bytes of an object, in order, while they arrive and are verified."""
        async with self._request("GET", object_path(name), allow_redirects=False) as answer:
            _refuse_folder(name, answer.status)
            async for piece in answer.content.iter_chunked(_PIECE_BYTES):
                yield piece

    async def get(self, name: str, path: str | os.PathLike[str]) -> int:
        """Fetches an object to a file of this machine, and returns its length. The file appears when it is complete."""
        target = Path(path)
        handle, part = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        length = 0
        try:
            with os.fdopen(handle, "wb") as file:
                async for piece in self.stream(name):
                    await asyncio.to_thread(file.write, piece)
                    length += len(piece)
            os.chmod(part, 0o666 & ~_umask())
            os.replace(part, target)
        except BaseException:
            os.unlink(part)
            raise
        return length

    async def put(
        self,
        source: str | os.PathLike[str] | bytes | BinaryIO,
        name: str,
        *,
        version: int | None = None,
        readers: list[str] | None = None,
    ) -> Event:
        """Uploads a file, bytes or an open file to the node, which publishes it until :meth:`remove`. The answer is
        ``published``."""
        query: dict[str, str] = {"name": name}
        if version is not None:
            query["version"] = str(version)
        if readers:
            query["readers"] = json.dumps(readers)
        headers = {"Content-Type": "application/octet-stream"}
        if isinstance(source, (str, os.PathLike)):
            with open(source, "rb") as file:
                return await self._event("POST", "/uploads", query=query, data=file, headers=headers)
        return await self._event("POST", "/uploads", query=query, data=source, headers=headers)

    async def publish(self, path: str | os.PathLike[str], name: str) -> Event:
        """Publishes a file or folder of the node's own machine. The answer is ``published``."""
        answers: list[Event] = await self._ask("POST", "/publications", body={"path": os.fspath(path), "name": name})
        return next(answer for answer in answers if answer.get("event") == "published")

    async def remove(self, name: str) -> Event:
        """Withdraws a name."""
        return await self._event("DELETE", "/publications", query={"name": name})

    async def ls(self, scope: str = "/") -> list[Entry]:
        """What the network offers below a name (families ``psi`` and ``mf``), else what the folder object of that name
        holds."""
        base = scope.rstrip("/")
        try:
            answers: list[Event] = await self._ask("GET", "/names", query={"scope": base or "/"})
        except TribError as error:
            # Families without listings, and nodes that refuse to list, may have the folder.
            if error.kind not in ("usage", "not-found", "incomplete") and error.status not in (401, 403):
                raise
            answers = []
        found: list[Entry] = [
            {
                "name": answer["name"],
                "type": "directory" if answer["kind"] == "scope" else "file",
                "size": None if answer["kind"] == "scope" else answer["bytes"],
                "etag": None,
                "modified": None,
            }
            for answer in answers
            if answer.get("event") == "entry"
        ]
        if found or not base:
            return found
        headers = {"Accept": "application/json"}
        async with self._request("GET", object_path(base + "/"), headers=headers) as answer:
            folder = json.loads(await answer.text()) if answer.content_type == "application/json" else None
        if not isinstance(folder, dict) or "entries" not in folder:
            return []
        return [
            {
                "name": f"{base}/{entry['path'].strip('/')}",
                "type": "file" if entry["type"] == "file" else "directory",
                "size": entry.get("size"),
                "etag": None,
                "modified": None,
            }
            for entry in folder["entries"]
        ]

    # The node.

    async def status(self) -> Event:
        """What the node is doing."""
        return await self._event("GET", "/status")

    async def transfers(self) -> list[Event]:
        """Where all transfers stand, by source and by path."""
        answers: list[Event] = await self._ask("GET", "/transfers")
        return answers

    async def begin(self, name: str, path: str | os.PathLike[str], **options: Any) -> str:
        """Has the node fetch an object to a file of its own machine; returns the transfer's number. It goes on without this
        client. ``options`` are further fields of the request, such as ``limit_bits_per_second``."""
        body = {"name": name, "output": {"path": os.fspath(path)}, **options}
        return str((await self._ask("POST", "/transfers", body=body))["transfer"])

    async def follow(self, transfer: str) -> AsyncIterator[Event]:
        """The events of a fetch that goes on at the node, up to ``done``; an error is raised."""
        async for event in self._lines("GET", "/follow", query={"id": transfer}):
            yield event

    async def pause(self, transfer: str) -> Event:
        """Ends a fetch that was begun, so that it can be resumed."""
        return await self._event("POST", f"/transfers/{quote(transfer, safe='')}/pause")

    async def resume(self, transfer: str) -> str:
        """Begins a paused fetch again, where it stopped; returns its new number."""
        return str((await self._ask("POST", f"/transfers/{quote(transfer, safe='')}/resume"))["transfer"])

    async def cancel(self, transfer: str) -> Event:
        """Ends a transfer; what it verified is kept."""
        return await self._event("DELETE", f"/transfers/{quote(transfer, safe='')}")

    async def limit(self, bits_per_second: int | None, transfer: str | None = None) -> Event:
        """Limits the rate of a transfer, or of all together; ``None`` lifts the limit."""
        path = f"/transfers/{quote(transfer, safe='')}/limit" if transfer else "/limit"
        return await self._event("PUT", path, body={"bits_per_second": bits_per_second})

    async def log(self, levels: str | None = None) -> Event:
        """How much the node logs; changes it if ``levels`` are given, such as ``info,net=debug``."""
        if levels is None:
            return await self._event("GET", "/log")
        return await self._event("PUT", "/log", body={"levels": levels})

    async def events(self, *, reconnect: bool = True) -> AsyncIterator[Event]:
        """What happens at the node, without an end. After a lost connection it goes on where it was, if the node still knows
        what came since; otherwise the event ``missed`` says that something is missing."""
        last: str | None = None
        wait, has_answered = _RETRY_SECONDS, False
        while True:
            headers = {"Accept": "text/event-stream"}
            if last is not None:
                headers["Last-Event-ID"] = last
            try:
                async with self._request("GET", f"{_API}/events", headers=headers) as answer:
                    wait, has_answered = _RETRY_SECONDS, True
                    data: list[str] = []
                    async for line in _text_lines(answer):
                        if line.startswith("data:"):
                            data.append(line[5:].removeprefix(" "))
                        elif line.startswith("id:"):
                            last = line[3:].strip()
                        elif not line and data:
                            event = json.loads("\n".join(data))
                            data.clear()
                            if event.get("event") != "waiting":
                                yield event
            except (TribError, aiohttp.ClientError, asyncio.TimeoutError, ConnectionError) as error:
                # What the node refuses it refuses again. A node that never answered is no lost connection.
                if not reconnect or isinstance(error, TribError) and (error.status or not has_answered):
                    raise
            if not reconnect:
                return
            await asyncio.sleep(wait)
            wait = min(wait * 2, _RETRY_SECONDS_MAX)

    # Requests.

    def _request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        data: Any = None,
        allow_redirects: bool = True,
        may_fail: bool = False,
        empty_at_end: bool = False,
    ) -> _Answer:
        if self._session is None:
            self._session = aiohttp.ClientSession(timeout=self._timeout)
        sent = dict(headers or {})
        if self._token is not None:
            sent["Authorization"] = f"Bearer {self._token}"
        # The path is encoded already.
        from yarl import URL

        url = URL(self.url + path, encoded=True).update_query(query or {})
        opened = self._session.request(method, url, headers=sent, data=data, allow_redirects=allow_redirects)
        return _Answer(opened, may_fail, empty_at_end)

    async def _ask(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        data: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        sent = dict(headers or {})
        if method in ("POST", "PUT") and data is None:
            data, sent["Content-Type"] = json.dumps(body or {}), "application/json"
        async with self._request(method, _API + path, query=query, headers=sent, data=data) as answer:
            return json.loads(await answer.text())

    async def _event(self, method: str, path: str, **how: Any) -> Event:
        """The one event that a request is answered by."""
        answer: Event = await self._ask(method, path, **how)
        return answer

    async def _lines(self, method: str, path: str, *, query: Mapping[str, str]) -> AsyncIterator[Event]:
        async with self._request(method, _API + path, query=query) as answer:
            async for line in _text_lines(answer):
                if line:
                    event = _check(json.loads(line))
                    if event.get("event") != "waiting":
                        yield event


class _Answer:
    """An answer in a context; one that says that the request failed raises that."""

    def __init__(self, opened: Any, may_fail: bool, empty_at_end: bool) -> None:
        self._opened = opened
        self._may_fail = may_fail
        self._empty_at_end = empty_at_end

    async def __aenter__(self) -> aiohttp.ClientResponse:
        try:
            answer: aiohttp.ClientResponse = await self._opened.__aenter__()
        except aiohttp.ClientConnectorError as error:
            raise TribError(
                f"cannot reach the node: {error}", "io", "is it running, with a section [http] in its config?"
            ) from error
        is_end = self._empty_at_end and answer.status == 416
        if answer.status >= 400 and not self._may_fail and not is_end:
            try:
                raise _failure(answer.status, await answer.text(errors="replace"))
            finally:
                await self._opened.__aexit__(None, None, None)
        return answer

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._opened.__aexit__(kind, error, trace)
        if isinstance(error, (aiohttp.ClientError, asyncio.TimeoutError)):
            raise Incomplete(f"the node's answer broke off: {error}", "incomplete") from error


async def _text_lines(answer: aiohttp.ClientResponse) -> AsyncIterator[str]:
    """Lines of any length."""
    rest = b""
    async for piece in answer.content.iter_any():
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            yield line.decode().rstrip("\r")
    if rest:
        yield rest.decode()


def _date(text: str | None) -> datetime | None:
    try:
        return parsedate_to_datetime(text) if text else None
    except ValueError:
        return None


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
