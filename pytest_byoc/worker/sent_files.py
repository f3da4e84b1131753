"""Files of a job that the host sends, since the worker's machine shares no folder with the host's."""

from __future__ import annotations

import os
import tempfile
from typing import Any, Mapping

import numpy as np

#: The key of a message that holds the files: their contents as bytes, by their paths on the host.
FILES = "files"


def written(message: Mapping[str, Any]) -> tuple[Mapping[str, Any], str]:
    """Writes the files of a message into a new folder.

    Returns the job with their paths there in the place of those on the host, and the folder; "" for a
    message without files.
    """
    files: Mapping[str, np.ndarray] = message.get(FILES, {})
    if not files:
        return message["job"], ""
    folder = tempfile.mkdtemp(prefix="sent-")
    paths = {}
    for number, (path, content) in enumerate(files.items()):
        # A file keeps its name, which its loader may ask for, but two folders may hold the same.
        below = os.path.join(folder, str(number))
        os.mkdir(below)
        paths[path] = os.path.join(below, os.path.basename(path))
        with open(paths[path], "wb") as f:
            f.write(content.tobytes())
    return _replaced(message["job"], paths), folder


def _replaced(value: Any, paths: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        return {key: _replaced(v, paths) for key, v in value.items()}
    if isinstance(value, list):
        return [_replaced(v, paths) for v in value]
    return paths.get(value, value) if isinstance(value, str) else value
