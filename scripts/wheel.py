#!/usr/bin/env python3
"""Write a Python wheel that holds one program, so that pipx and uvx can install and run it.

usage: wheel.py PROGRAM VERSION ARCHITECTURE DIRECTORY

ARCHITECTURE is x86_64 or aarch64; the program is linked statically, so it runs on every Linux of that
architecture. The same program gives the same bytes. Prints the wheel's path.
Source: Python packaging specifications, "Binary distribution format".
"""

import base64
import hashlib
import sys
import zipfile
from pathlib import Path

# PyPI has another package named tare. The program keeps its name.
NAME = "tare-mesh"
FILE_NAME = "tare_mesh"
PROGRAM_NAME = "tare"
SUMMARY = "Weigh a service mesh: what it costs in latency, CPU and memory."


def main(program: str, version: str, architecture: str, directory: str) -> None:
    tags = ["manylinux_2_17", "manylinux2014", "musllinux_1_1"]
    platforms = [f"{tag}_{architecture}" for tag in tags]
    info = f"{FILE_NAME}-{version}.dist-info"
    metadata = [
        "Metadata-Version: 2.1",
        f"Name: {NAME}",
        f"Version: {version}",
        f"Summary: {SUMMARY}",
        "License: Apache-2.0",
        "Requires-Python: >=3.8",
    ]
    wheel = ["Wheel-Version: 1.0", "Generator: tare scripts/wheel.py", "Root-Is-Purelib: false"]
    wheel += [f"Tag: py3-none-{platform}" for platform in platforms]
    license_file = Path(__file__).resolve().parent.parent / "LICENSE"
    files = [
        (f"{FILE_NAME}-{version}.data/scripts/{PROGRAM_NAME}", Path(program).read_bytes(), 0o755),
        (f"{info}/METADATA", lines(metadata), 0o644),
        (f"{info}/WHEEL", lines(wheel), 0o644),
        (f"{info}/licenses/LICENSE", license_file.read_bytes(), 0o644),
    ]
    record = [f"{path},sha256={digest(data)},{len(data)}" for path, data, _ in files]
    record.append(f"{info}/RECORD,,")
    files.append((f"{info}/RECORD", lines(record), 0o644))

    out = Path(directory) / f"{FILE_NAME}-{version}-py3-none-{'.'.join(platforms)}.whl"
    with zipfile.ZipFile(out, "w") as archive:
        for path, data, mode in files:
            # The earliest time of the format: the build time must not change the bytes.
            entry = zipfile.ZipInfo(path, (1980, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o100000 | mode) << 16
            archive.writestr(entry, data)
    print(out)


def lines(text: list[str]) -> bytes:
    return ("\n".join(text) + "\n").encode()


def digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


if __name__ == "__main__":
    if len(sys.argv) != 5 or sys.argv[3] not in ("x86_64", "aarch64"):
        sys.exit(__doc__)
    main(*sys.argv[1:])
