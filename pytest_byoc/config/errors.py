"""The exception of the settings."""

from __future__ import annotations


class SettingsError(ValueError):
    """Raised for a setting that cannot be used; the message names the remedy."""
