"""The client and the file system against real nodes: `$TRIB` is the program."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest
from trib import Client, Event, Incomplete, NotFound, TribError, Unauthorized
from trib.client import object_path

TRIB = os.environ.get("TRIB", "trib")
BYTES = bytes(range(256)) * 12_000


def free_port(kind: socket.SocketKind) -> int:
    with socket.socket(socket.AF_INET, kind) as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@contextlib.contextmanager
def running(folder: Path, label: str, roles: str, more: str = "", listen: int = 0) -> Iterator[Event]:
    config = folder / f"{label}.toml"
    config.write_text(
        f'[node]\nlabel = "{label}"\nroles = [{roles}]\nstate_dir = "{label}"\nlisten = ["127.0.0.1:{listen}"]\n{more}'
    )
    command = [TRIB, "node", "--json", "--stop-with-stdin", "--config", str(config)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as node:
        assert node.stdout is not None
        try:
            yield json.loads(node.stdout.readline())
        finally:
            assert node.stdin is not None
            node.stdin.close()
            node.wait(30)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where a receiver answers whose neighbour resolves names."""
    folder = tmp_path_factory.mktemp("nodes")
    port = free_port(socket.SOCK_DGRAM)
    http = '[http]\nlisten = "127.0.0.1:0"\n'
    with running(folder, "router", '"router", "resolver", "topology-manager"', listen=port):
        face = f'[[face]]\npeer = "127.0.0.1:{port}"\n'
        with running(folder, "receiver", '"receiver", "sender"', face + http) as ready:
            yield f"http://{ready['http']}"


def test_what_is_put_comes_back_whole_and_in_ranges(url: str, tmp_path: Path) -> None:
    async def work() -> None:
        async with Client(url) as node:
            published = await node.put(BYTES, "/py/a file")
            assert published["event"] == "published" and published["bytes"] == len(BYTES)
            assert await node.get("/py/a file", tmp_path / "copy") == len(BYTES)
            assert (tmp_path / "copy").read_bytes() == BYTES
            assert list(tmp_path.iterdir()) == [tmp_path / "copy"]
            assert await node.read("/py/a file", 1_000, 1_010) == BYTES[1_000:1_010]
            assert await node.read("/py/a file", len(BYTES) - 5) == BYTES[-5:]
            assert await node.read("/py/a file", len(BYTES), len(BYTES) + 5) == b""
            assert b"".join([piece async for piece in node.stream("/py/a file")]) == BYTES
            info = await node.info("/py/a file")
            assert (info["type"], info["size"]) == ("file", len(BYTES))
            (tmp_path / "small").write_bytes(b"12")
            await node.put(tmp_path / "small", "/py/small")
            await node.put(io.BytesIO(b"345"), "/py/opened")
            assert await node.read("/py/small") + await node.read("/py/opened") == b"12345"
            assert {"/py/small", "/py/opened"} <= {entry["name"] for entry in await node.ls("/py")}
            await node.remove("/py/small")

    asyncio.run(work())


def test_failures_say_what_failed_and_leave_nothing(url: str, tmp_path: Path) -> None:
    async def work() -> None:
        async with Client(url) as node:
            with pytest.raises((NotFound, Incomplete)):
                await node.get("/py/nothing", tmp_path / "nothing")
            assert list(tmp_path.iterdir()) == []
            with pytest.raises(TribError) as failure:
                await node.cancel("transfer-999")
            assert failure.value.kind and failure.value.status >= 400
            with pytest.raises(TribError) as failure:
                await node.log("loud")
            assert "'loud' is not a level" in str(failure.value)
        async with Client(f"http://127.0.0.1:{free_port(socket.SOCK_STREAM)}") as nobody:
            with pytest.raises(TribError) as failure:
                await nobody.status()
            assert "cannot reach the node" in str(failure.value)

    asyncio.run(work())


def test_the_node_is_asked_and_told(url: str, tmp_path: Path) -> None:
    async def work() -> None:
        async with Client(url) as node:
            assert (await node.status())["label"] == "receiver"
            assert (await node.log("info,net=debug"))["levels"] == "info,net=debug"
            assert (await node.log())["levels"] == "info,net=debug"
            await node.put(BYTES, "/py/begun")
            transfer = await node.begin("/py/begun", tmp_path / "begun")
            events = [event async for event in node.follow(transfer)]
            assert events[-1]["event"] == "done" and (tmp_path / "begun").read_bytes() == BYTES
            assert any(one["transfer"] == transfer for one in await node.transfers())
            limited = await node.limit(20_000_000)
            assert limited["bits_per_second"] == 20_000_000
            await node.limit(None)

    asyncio.run(work())


def test_events_go_on_after_a_lost_connection(url: str) -> None:
    async def work() -> None:
        lost = asyncio.Event()

        # A proxy that cuts the first connection after the first event.
        async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            host, port = url.removeprefix("http://").split(":")
            up, down = await asyncio.open_connection(host, int(port))

            async def upwards() -> None:
                while piece := await reader.read(65_536):
                    down.write(piece.replace(own.encode(), f"{host}:{port}".encode()))

            task = asyncio.create_task(upwards())
            while piece := await up.read(65_536):
                writer.write(piece)
                if b"/py/event-1" in piece and not lost.is_set():
                    lost.set()
                    break
            task.cancel()
            writer.close()
            down.close()

        server = await asyncio.start_server(carry, "127.0.0.1", 0)
        own = "127.0.0.1:{}".format(server.sockets[0].getsockname()[1])
        async with Client(url) as node, Client(f"http://{own}") as watcher:
            seen: list[str] = []

            async def watch() -> None:
                async for event in watcher.events():
                    text = json.dumps(event)
                    seen.extend(name for name in ("/py/event-1", "/py/event-2") if name in text)
                    if "/py/event-2" in seen:
                        return

            task = asyncio.create_task(watch())
            await asyncio.sleep(1)
            for number in (1, 2):
                await node.put(b"x", f"/py/event-{number}")
                await node.remove(f"/py/event-{number}")
                await asyncio.sleep(0.5)
            await asyncio.wait_for(task, 30)
            assert lost.is_set() and "/py/event-1" in seen
        server.close()

    asyncio.run(work())


def test_a_token_is_needed_where_the_config_says_so(tmp_path: Path) -> None:
    http = '[http]\nlisten = "127.0.0.1:0"\ntoken_file = "token"\n'
    with running(tmp_path, "guarded", '"router"', http) as ready:
        address, token = f"http://{ready['http']}", (tmp_path / "token").read_text().strip()

        async def work() -> None:
            async with Client(address, token) as friend:
                assert (await friend.status())["label"] == "guarded"
            async with Client(address, "another") as stranger:
                with pytest.raises(Unauthorized):
                    await stranger.status()

        asyncio.run(work())


def test_names_of_the_nodes_own_paths_are_objects_too() -> None:
    assert object_path("/metrics") == "/%6Detrics"
    assert object_path("/api/v1/x") == "/%61pi/v1/x"
    assert object_path("/apiary") == "/apiary"
    assert object_path("trib:/lab/a b?publisher=ed25519:00") == "/lab/a%20b?publisher=ed25519:00"
    with pytest.raises(ValueError):
        object_path("lab/a")


def test_fsspec_reads_writes_and_lists(url: str, tmp_path: Path) -> None:
    options = {"node": url, "skip_instance_cache": True}
    files = fsspec.filesystem("trib", **options)
    files.pipe_file("/fs/a", BYTES)
    assert files.info("trib:///fs/a")["size"] == len(BYTES)
    assert files.cat_file("/fs/a", 10, 20) == BYTES[10:20] and files.cat_file("/fs/a", -4) == BYTES[-4:]
    with fsspec.open("trib:///fs/a", "rb", **options) as file:
        file.seek(-6, os.SEEK_END)
        assert file.read() == BYTES[-6:]
    with fsspec.open("trib:///fs/written", "wb", **options) as file:
        file.write(b"one ")
        file.write(b"two")
    assert files.cat_file("/fs/written") == b"one two"
    files.get_file("/fs/a", str(tmp_path / "a"))
    assert (tmp_path / "a").read_bytes() == BYTES
    (tmp_path / "b").write_bytes(b"b")
    files.put_file(str(tmp_path / "b"), "/fs/b")
    assert {"/fs/a", "/fs/b", "/fs/written"} <= set(files.ls("/fs", detail=False))
    assert files.isdir("/fs") and files.isfile("/fs/b") and not files.exists("/fs/nothing")
    with pytest.raises(FileNotFoundError):
        files.info("/fs/nothing")
    files.rm_file("/fs/b")


def test_pandas_and_duckdb_read_names(url: str) -> None:
    pandas = pytest.importorskip("pandas")
    duckdb = pytest.importorskip("duckdb")
    options = {"node": url, "skip_instance_cache": True}
    table = pandas.DataFrame({"n": range(100_000), "square": [n * n for n in range(100_000)]})
    with fsspec.open("trib:///fs/table.parquet", "wb", **options) as file:
        table.to_parquet(file)
    read = pandas.read_parquet("trib:///fs/table.parquet", columns=["square"], storage_options=options)
    assert read["square"].equals(table["square"])
    connection = duckdb.connect()
    connection.register_filesystem(fsspec.filesystem("trib", **options))
    found = connection.execute("SELECT count(*), max(square) FROM 'trib:///fs/table.parquet' WHERE n >= 50000").fetchall()
    assert found == [(50_000, 99_999**2)]


def test_the_types_are_right() -> None:
    pytest.importorskip("mypy")
    package = Path(__file__).parent.parent
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", "pyproject.toml", "-p", "trib"],
        cwd=package,
        env={**os.environ, "MYPYPATH": "src"},
        capture_output=True,
        text=True,
    )
    assert checked.returncode == 0, checked.stdout
