#!/usr/bin/env python3
"""Builds the wheel: the Python package, and the program as a script.

maturin builds it from source (`pip install packaging/python`). For a program that is compiled already, and so that two
builds give the same bytes, the wheel is written here: a zip archive by PEP 427, with the times of the commit.
"""

import argparse
import base64
import hashlib
import os
import re
import stat
import sys
import time
import tomllib
import zipfile
from pathlib import Path

HERE = Path(__file__).parent


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--version", required=True)
    parser.add_argument("--binary", required=True, type=Path)
    parser.add_argument("--out", required=True, type=Path)
    arguments = parser.parse_args()
    project = tomllib.loads((HERE / "pyproject.toml").read_text())["project"]
    name, version = project["name"], arguments.version
    tag = f"py3-none-{platform_tag(arguments.binary)}"
    info = f"{name}-{version}.dist-info"
    files: list[tuple[str, bytes, int]] = []
    for path in sorted((HERE / "src").rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            files.append((path.relative_to(HERE / "src").as_posix(), path.read_bytes(), 0o644))
    files.append((f"{name}-{version}.data/scripts/trib", arguments.binary.read_bytes(), 0o755))
    files.append((f"{info}/METADATA", metadata(project, version).encode(), 0o644))
    platforms = tag.removeprefix("py3-none-").split(".")
    wheel = f"Wheel-Version: 1.0\nGenerator: tributary ({version})\nRoot-Is-Purelib: false\n"
    wheel += "".join(f"Tag: py3-none-{one}\n" for one in platforms)
    files.append((f"{info}/WHEEL", wheel.encode(), 0o644))
    entries = "".join(
        f"[{group}]\n" + "".join(f"{key} = {value}\n" for key, value in points.items())
        for group, points in project["entry-points"].items()
    )
    files.append((f"{info}/entry_points.txt", entries.encode(), 0o644))
    texts = [HERE / "../../LICENSE-MIT", HERE / "../../LICENSE-APACHE", arguments.out / "LICENCES-OF-CRATES"]
    files += [(f"{info}/licenses/{text.name}", text.read_bytes(), 0o644) for text in texts]
    record = f"{info}/RECORD"
    lines = [f"{path},sha256={digest(data)},{len(data)}" for path, data, _ in files] + [f"{record},,"]
    files.append((record, "".join(f"{line}\n" for line in lines).encode(), 0o644))

    # A zip archive knows no time before 1980.
    moment = max(int(os.environ.get("SOURCE_DATE_EPOCH", "0")), 315_619_200)
    target = arguments.out / f"{name}-{version}-{tag}.whl"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for path, data, mode in files:
            entry = zipfile.ZipInfo(path, time.gmtime(moment)[:6])
            entry.external_attr = (stat.S_IFREG | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, data)
    print(target)


def digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def platform_tag(binary: Path) -> str:
    """The oldest C library that the program runs with, by the versions of its symbols (PEP 600), and its processor.

    A program without any is static: it runs beside every C library (PEP 656).
    """
    program = binary.read_bytes()
    machine = {62: "x86_64", 183: "aarch64", 40: "armv7l"}.get(int.from_bytes(program[18:20], "little"))
    if program[:4] != b"\x7fELF" or not machine:
        sys.exit(f"package: '{binary}' is a program for another system or processor than wheels are made for here")
    versions = re.findall(rb"GLIBC_2\.(\d+)", program)
    if not versions:
        return f"manylinux_2_17_{machine}.manylinux2014_{machine}.musllinux_1_1_{machine}"
    return f"manylinux_2_{max(map(int, versions))}_{machine}"


def metadata(project: dict, version: str) -> str:
    lines = [
        "Metadata-Version: 2.1",
        f"Name: {project['name']}",
        f"Version: {version}",
        f"Summary: {project['description']}",
        f"License: {project['license']['text']}",
        f"Requires-Python: {project['requires-python']}",
        *(f"Classifier: {one}" for one in project["classifiers"]),
        *(f"Requires-Dist: {one}" for one in project["dependencies"]),
    ]
    for extra, needs in project["optional-dependencies"].items():
        lines.append(f"Provides-Extra: {extra}")
        lines += [f"Requires-Dist: {one}; extra == '{extra}'" for one in needs]
    lines += ["Description-Content-Type: text/markdown", "", (HERE / "README.md").read_text()]
    return "\n".join(lines)


main()
