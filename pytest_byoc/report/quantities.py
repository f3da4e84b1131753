"""Writes counts and amounts of memory for the page."""

from __future__ import annotations


def count(n: int | float) -> str:
    """Returns a number with a narrow space between its thousands."""
    return f"{n:,}".replace(",", "\u202f")


def in_bytes(n: float) -> str:
    """Returns an amount of memory with its unit."""
    for unit in ("bytes", "KiB", "MiB"):
        if n < 1024:
            return f"{n:.0f} {unit}" if unit == "bytes" or n >= 10 else f"{n:.1f} {unit}"
        n /= 1024
    return f"{n:.1f} GiB"


def plural(n: int, noun: str) -> str:
    return noun if n == 1 else noun + "s"


def number(n: int, noun: str) -> str:
    return f"{count(n)} {plural(n, noun)}"
