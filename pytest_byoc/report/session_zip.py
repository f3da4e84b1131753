"""Writes and verifies the bundle of a session (--byoc-bundle): one .zip to send or to keep.

MANIFEST.json     {"format", "files": {name: SHA-256}} of every other file
report.json, report.html
versions.json     versions, times and hashes of the report, for readers who need nothing else
byoc-failures/…   a folder for each failure listed in the report
inputs/…          the file of waivers, the baseline, the graphs given with --byoc-replay and --byoc-corpus
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import IO, Any

from ..config.settings import Settings
from ..core import files
from ..core.files import replace
from ..core.graph import Graph, GraphFormatError
from ..storage import corpus
from . import html, schema

FORMAT = "pytest-byoc/bundle/1"
MANIFEST = "MANIFEST.json"
#: Largest number of unpacked bytes of all members; a longer file is no bundle and would take too
#: long.
_BYTES = 2 << 30
#: Bytes that one step reads of a member.
_BLOCK = 1 << 20
#: The time of every member, the earliest that a .zip can hold: the same data makes the same bundle.
_TIME = (1980, 1, 1, 0, 0, 0)


def inputs(settings: Settings, graphs: Sequence[Path]) -> dict[str, Path]:
    """Returns the input files of the session by their names in the bundle, without unreadable
    graphs."""
    found = {}
    named = [("waivers", settings.waivers), ("baseline", settings.baseline)]
    named += [(f"corpus/{i}", path) for i, path in enumerate(graphs) if _is_graph(path)]
    for what, path in named:
        if path is not None and path.is_file():
            found[f"inputs/{what}/{path.name}"] = path
    return found


def _is_graph(path: Path) -> bool:
    try:
        corpus.read(path)
    except GraphFormatError:
        return False
    return True


def write(path: Path, report: Mapping[str, Any], folder: Path, given: Mapping[str, Path]) -> None:
    """Writes the file whole or not at all. folder: the folder that paths of failures' bundles in
    the report are relative to. given: from `inputs`.

    Raises OSError."""
    contents = {
        "report.json": json.dumps(report, indent=1).encode(),
        "report.html": html.render(report).encode("utf-8", "replace"),
        "versions.json": json.dumps(_versions(report), indent=1).encode(),
        **{name: source.read_bytes() for name, source in given.items()},
    }
    for bundle in sorted({f["bundle"] for f in _failures(report) if f["bundle"]}):
        for source in sorted((folder / bundle).rglob("*")):
            if source.is_file():
                contents[source.relative_to(folder).as_posix()] = source.read_bytes()
    hashes = {name: hashlib.sha256(data).hexdigest() for name, data in sorted(contents.items())}
    manifest = json.dumps({"format": FORMAT, "files": hashes}, indent=1).encode()
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in [(MANIFEST, manifest), *sorted(contents.items())]:
            archive.writestr(zipfile.ZipInfo(name, _TIME), data, zipfile.ZIP_DEFLATED)
    replace(path, packed.getvalue())


def verify(path: Path) -> list[str]:
    """Returns the problems of a bundle, one line each. Raises OSError or BadZipFile if it can't be
    read."""
    with files.opened(path) as file, zipfile.ZipFile(file) as archive:
        return list(_problems(archive))


def _problems(archive: zipfile.ZipFile) -> Iterator[str]:
    contents: dict[str, bytes] = {}
    found: dict[str, str] = {}
    left = _BYTES
    for info in archive.infolist():
        name = info.filename
        if name in found:
            yield f"{name}: occurs twice"
        found[name] = ""
        if not _stays_inside(name):
            yield f"{name!r}: would be unpacked outside its folder: don't unpack this file"
        try:
            with archive.open(info) as member:
                data, found[name], size = _read(member, left, files.LIMIT if _is_looked_into(name) else 0)
        except (zipfile.BadZipFile, zlib.error, RuntimeError, NotImplementedError, EOFError) as e:
            yield f"{name}: cannot be unpacked: {e}"
            continue
        left -= size
        if left < 0:
            yield f"{name}: the files up to this one have more than {_BYTES >> 20} MiB: the rest was not read"
            return
        if _is_looked_into(name):
            if size > files.LIMIT:
                yield f"{name}: has more than {files.LIMIT >> 20} MiB: its content was not checked"
            else:
                contents[name] = data
    manifest = _json(contents.pop(MANIFEST, b""))
    hashes = manifest.get("files") if isinstance(manifest, dict) else None
    if not isinstance(hashes, dict) or manifest.get("format") != FORMAT:
        yield f'{MANIFEST}: expected {{"format": "{FORMAT}", "files": {{name: SHA-256}}}}'
        return
    found.pop(MANIFEST, None)
    for name, wanted in sorted(hashes.items()):
        if name not in found:
            yield f"{name}: is listed in {MANIFEST}, and missing"
        elif found[name] != wanted:
            yield f"{name}: does not have the SHA-256 that {MANIFEST} lists"
    for name in sorted(set(found) - set(hashes)):
        yield f"{name}: is not listed in {MANIFEST}"
    report = _json(contents.get("report.json", b""))
    wrong = schema.problems(report)
    yield from (f"report.json: {text}" for text in wrong)
    if "report.html" not in found:
        yield "report.html: is missing"
    if not wrong:
        for failure in _failures(report):
            graph = str(PurePosixPath(failure["bundle"]) / "graph.json")
            if failure["bundle"] and graph not in found:
                yield f"{graph}: is missing; it is the graph of failure {failure['id']}"
    yield from _graphs(contents)


def _read(member: IO[bytes], most: int, keep: int) -> tuple[bytes, str, int]:
    """Reads a member. Returns its first `keep` bytes, its SHA-256, and the number of bytes read;
    that number exceeds `most` if the member was not read to its end."""
    kept, digest, size = bytearray(), hashlib.sha256(), 0
    while size <= most and (block := member.read(_BLOCK)):
        kept += block[: max(0, keep - len(kept))]
        digest.update(block)
        size += len(block)
    return bytes(kept), digest.hexdigest(), size


def _is_looked_into(name: str) -> bool:
    return name in (MANIFEST, "report.json") or _is_of_a_graph(name)


def _is_of_a_graph(name: str) -> bool:
    return PurePosixPath(name).name == "graph.json" or name.startswith("inputs/corpus/")


def _stays_inside(name: str) -> bool:
    return not (name.startswith("/") or ".." in name.split("/") or "\\" in name or ":" in name)


def _graphs(contents: Mapping[str, bytes]) -> Iterator[str]:
    for name, data in sorted(contents.items()):
        if _is_of_a_graph(name):
            try:
                Graph.from_json(data.decode())
            except (GraphFormatError, UnicodeDecodeError) as e:
                yield f"{name}: is no graph: {e}"


def _versions(report: Mapping[str, Any]) -> dict[str, Any]:
    targets = report.get("targets", [report])
    workers = [{"target": t["target"], "ir": t["ir"], "versions": t["versions"]} for t in targets]
    return {"schema": report["schema"], "session": report["session"], "workers": workers}


def _failures(report: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    for target in report.get("targets", [report]):
        yield from target["failures"]


def _json(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None
