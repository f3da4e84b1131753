"""The provenance of a report: times, versions and hashes of a session."""

from __future__ import annotations

import platform
import subprocess
from collections.abc import Iterator
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path
from typing import Any

from .. import __version__
from ..config.settings import Settings
from ..core.files import digest
from ..storage import corpus
from ..storage.own_code import sources

#: Packages whose version may change what is generated or how it is judged.
_PACKAGES = ("pytest", "hypothesis", "numpy", "onnx")


def session(settings: Settings, started: datetime, finished: datetime, root: Path) -> dict[str, Any]:
    """Returns the `session` of report.json. The definition in report.schema.json says what each
    field holds. root: the project's folder."""
    return {
        "started": _iso(started),
        "finished": _iso(finished),
        "host": {
            "pytest-byoc": __version__,
            "python": platform.python_version(),
            **{name: metadata.version(name) for name in _PACKAGES},
            "platform": platform.platform(),
        },
        "sources": sources(),
        "commit": commit(root),
        "files": files(settings),
    }


def commit(root: Path) -> str:
    """Returns the commit of the git repository that a folder is in; "" if there is none."""
    try:
        made = subprocess.run(
            ["git", "rev-parse", "HEAD"], cwd=root, capture_output=True, text=True, timeout=10, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return made.stdout.strip() if made.returncode == 0 else ""


def files(settings: Settings) -> list[dict[str, str]]:
    """Returns purpose, path and SHA-256 of each readable file that an option names."""
    return [{"what": w, "path": str(p), "sha256": found} for w, p, found in _files(settings)]


def _files(settings: Settings) -> Iterator[tuple[str, Path, str]]:
    """Yields purpose, path and digest of each readable file that an option names. Unreadable files
    have failed elsewhere; a library may also be one that the dynamic loader finds by its name."""
    named: list[tuple[str, str | Path | None]] = []
    for target in settings.targets:
        named.append((f"{target.name}: partition", (target.reference or "").rpartition(":")[0]))
        named += [(f"{target.name}: library", p) for p in target.libraries]
        runtime = target.options.get("runtime_libraries", [])
        named += [(f"{target.name}: runtime library", p) for p in runtime]
    named += [("waivers", settings.waivers), ("baseline", settings.baseline)]
    named += [("replayed graph", p) for p in corpus.files_of(settings.replay)]
    named += [("corpus graph", p) for p in corpus.files_of(settings.corpus)]
    for what, given in named:
        path = Path(given or "")
        try:
            if path.is_file():
                yield what, path, digest(path)
        except OSError:
            continue


def _iso(time: datetime) -> str:
    return time.astimezone(timezone.utc).isoformat(timespec="seconds").replace("+00:00", "Z")
