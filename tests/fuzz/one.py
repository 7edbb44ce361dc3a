"""One target under atheris: python -m fuzz.one NAME PACKAGE,... [libFuzzer's arguments]. `fuzz.run` calls it."""

from __future__ import annotations

import sys

import atheris

NAME, PACKAGES, *ARGUMENTS = sys.argv[1:]

with atheris.instrument_imports(include=PACKAGES.split(",")):
    from fuzz.targets import TARGETS


def main() -> None:
    atheris.Setup([sys.argv[0], *ARGUMENTS], TARGETS[NAME].run)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
