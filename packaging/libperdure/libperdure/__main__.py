"""python -m libperdure [--prefix | --library | --version]"""

import sys

import libperdure

ANSWERS = {
    "--prefix": libperdure.prefix,
    "--library": libperdure.library,
    "--version": lambda: libperdure.__version__,
}


def main() -> int:
    if len(sys.argv) != 2 or sys.argv[1] not in ANSWERS:
        print(f"usage: python -m libperdure [{' | '.join(ANSWERS)}]", file=sys.stderr)
        return 2
    print(ANSWERS[sys.argv[1]]())
    return 0


if __name__ == "__main__":
    sys.exit(main())
