#!/usr/bin/env python3
"""Print the software bill of materials of the shipped program: CycloneDX 1.5, JSON.

It lists the crates that the program for x86-64 or ARM64 Linux is made from (procedural macros included), with
version, licence and checksum, and which depends on which. Crates that only build scripts or tests use are
left out. The same Cargo.lock gives the same bytes.
"""

import json
import os
import re
import subprocess
import uuid
from pathlib import Path

TARGETS = ["x86_64-unknown-linux-musl", "aarch64-unknown-linux-musl"]


def main() -> None:
    root = Path(__file__).resolve().parent.parent
    command = [os.environ.get("CARGO", "cargo"), "metadata", "--format-version=1", "--locked"]
    command += [f"--filter-platform={target}" for target in TARGETS]
    metadata = json.loads(subprocess.check_output(command, cwd=root))
    packages = {package["id"]: package for package in metadata["packages"]}
    edges = {node["id"]: used(node) for node in metadata["resolve"]["nodes"]}
    program = next(id for id, package in packages.items() if package["name"] == "tare")

    found, queue = set(), [program]
    while queue:
        package = queue.pop()
        if package not in found:
            found.add(package)
            queue += edges[package]

    lock = (root / "Cargo.lock").read_text()
    entry = r'name = "(.+)"\nversion = "(.+)"\nsource = ".+"\nchecksum = "(.+)"'
    checksums = {(name, version): sha256 for name, version, sha256 in re.findall(entry, lock)}
    crates = sorted((packages[id] for id in found), key=lambda p: (p["name"], p["version"]))
    bom = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, lock)}",
        "version": 1,
        "metadata": {"component": component(packages[program], checksums, "application")},
        "components": [component(p, checksums, "library") for p in crates if p["id"] != program],
        "dependencies": [
            {"ref": purl(p), "dependsOn": sorted(purl(packages[id]) for id in edges[p["id"]])}
            for p in crates
        ],
    }
    print(json.dumps(bom, indent=1))


def used(node: dict) -> set[str]:
    """The dependencies of a package that the program is made from."""
    normal = [d for d in node["deps"] if any(kind["kind"] is None for kind in d["dep_kinds"])]
    return {dependency["pkg"] for dependency in normal}


def purl(package: dict) -> str:
    return f"pkg:cargo/{package['name']}@{package['version']}"


def component(package: dict, checksums: dict, kind: str) -> dict:
    found = {
        "type": kind,
        "bom-ref": purl(package),
        "name": package["name"],
        "version": package["version"],
        "purl": purl(package),
    }
    if package["license"]:
        # Old manifests separate alternatives with a slash.
        expression = re.sub(r"\s*/\s*", " OR ", package["license"])
        found["licenses"] = [{"expression": expression}]
    sha256 = checksums.get((package["name"], package["version"]))
    if sha256:
        found["hashes"] = [{"alg": "SHA-256", "content": sha256}]
    return found


if __name__ == "__main__":
    main()
