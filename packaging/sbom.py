#!/usr/bin/env python3
"""Writes the software bill of materials of the program `trib` to standard output; with --licences, the licences' texts.

CycloneDX 1.5, from what cargo itself says of the crates that are linked into the program: `cargo metadata --locked` for
this platform, and the checksums of Cargo.lock. The same commit gives the same bytes.
"""

import json
import os
import re
import subprocess
import sys
import tomllib
from datetime import UTC, datetime
from pathlib import Path


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
    if "--licences" in sys.argv[1:]:
        licences([packages[of] for of in ordered if packages[of]["source"]])
        return
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


def licences(crates: list[dict]) -> None:
    """Prints each text once, below the crates that come with it."""
    users: dict[str, list[str]] = {}
    for crate in crates:
        folder = Path(crate["manifest_path"]).parent
        named = [file for file in folder.iterdir() if file.is_file() and TEXT.match(file.name)]
        # Those without a text name their licence only.
        texts = [file.read_text(errors="replace").strip() for file in sorted(named)]
        for text in texts or [f"{crate['license'] or 'see its page'} (the crate has no text of it)"]:
            users.setdefault(text, []).append(f"{crate['name']} {crate['version']} ({crate['license']})")
    for text, names in sorted(users.items(), key=lambda item: item[1]):
        print("=" * 80, *names, "-" * 80, text, "", sep="\n")


TEXT = re.compile(r"(licen[cs]e|copying|notice|copyright|unlicense)", re.IGNORECASE)

main()
