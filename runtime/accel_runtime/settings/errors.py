"""The one error of the launcher and its settings."""

from __future__ import annotations


class LaunchError(ValueError):
    """The command line or the configuration file asks for something impossible; the message is one line for the user."""
