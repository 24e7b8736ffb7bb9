"""`python3 -m psgd VERB ...` runs the job_submit that this package uses; `python3 -m psgd --version` also prints its path."""
from __future__ import annotations

import os
import sys
from typing import List

from . import __version__
from .errors import Error
from .program import find, run


def main(words: List[str]) -> int:
    try:
        if words in (["--version"], ["-V"]):
            print(f"psgd {__version__}")
            print(f"{run(None, ['version']).out.strip()} at {find()}")
            return 0
        path = find()
        sys.stdout.flush()
        os.execv(path, [path, *words])
    except Error as e:
        print(f"error: {e}", file=sys.stderr)
        return e.exit_status
    except OSError as e:
        print(f"error: {path}: {e.strerror}", file=sys.stderr)
        return 70


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
