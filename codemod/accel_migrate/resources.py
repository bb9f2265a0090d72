"""Where the files that ship as data are: inside the installed package, or in a checkout."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def resource(name: str) -> Path:
    """The folder `templates` or `examples`.

    Raises:
        FileNotFoundError: it is in neither place, so the installation is damaged.
    """
    places = (_PACKAGE / "_data" / name, _PACKAGE.parents[1] / name)
    for place in places:
        if place.is_dir():
            return place
    raise FileNotFoundError(f"{name}/ is missing from the installation (looked in {places[0]} and {places[1]})")
