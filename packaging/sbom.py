#!/usr/bin/env python3
"""Writes the software bill of materials of the program `trib` to standard output.

CycloneDX 1.5, from what cargo itself says of the crates that are linked into the program: `cargo metadata --locked` for
this platform, and the checksums of Cargo.lock. The same commit gives the same bytes.
"""

import json
import os
import subprocess
import sys
import tomllib
from datetime import UTC, datetime


def main() -> None:
    host = next(
        line.split()[1]
        for line in subprocess.check_output(["rustc", "-vV"], text=True).splitlines()
        if line.startswith("host:")
    )
    metadata = json.loads(
        subprocess.check_output(
            ["cargo", "metadata", "--locked", "--format-version=1", f"--filter-platform={host}"], text=True
        )
    )
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    root = next(package["id"] for package in metadata["packages"] if package["name"] == "trib")
    with open("Cargo.lock", "rb") as file:
        checksums = {
            (package["name"], package["version"]): package["checksum"]
            for package in tomllib.load(file)["package"]
            if "checksum" in package
        }

    # Linked or build-time dependencies, not those of tests.
    def dependencies(of: str) -> list[str]:
        found = [
            dep["pkg"] for dep in nodes[of]["deps"] if any(kind["kind"] != "dev" for kind in dep["dep_kinds"])
        ]
        return sorted(set(found))

    seen, waiting = {root}, [root]
    while waiting:
        for dependency in dependencies(waiting.pop()):
            if dependency not in seen:
                seen.add(dependency)
                waiting.append(dependency)

    def purl(of: str) -> str:
        return f"pkg:cargo/{packages[of]['name']}@{packages[of]['version']}"

    def component(of: str) -> dict[str, object]:
        package = packages[of]
        made: dict[str, object] = {
            "type": "application" if of == root else "library",
            "bom-ref": purl(of),
            "name": package["name"],
            "version": package["version"],
            "purl": purl(of),
        }
        if package["description"]:
            made["description"] = " ".join(package["description"].split())
        if package["license"]:
            # A few crates still separate alternatives by a slash, which SPDX has not.
            made["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
        if checksum := checksums.get((package["name"], package["version"])):
            made["hashes"] = [{"alg": "SHA-256", "content": checksum}]
        return made

    ordered = sorted(seen, key=purl)
    date = datetime.fromtimestamp(int(os.environ.get("SOURCE_DATE_EPOCH", "0")), UTC)
    bom = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"timestamp": date.strftime("%Y-%m-%dT%H:%M:%SZ"), "component": component(root)},
        "components": [component(of) for of in ordered if of != root],
        "dependencies": [
            {"ref": purl(of), "dependsOn": sorted({purl(dep) for dep in dependencies(of)})} for of in ordered
        ],
    }
    json.dump(bom, sys.stdout, indent=1, ensure_ascii=False)
    print()


main()
