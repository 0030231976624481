"""`python -m tests.attack.mutants`."""

import sys

from tests.attack.mutants.runner import main

if __name__ == "__main__":
    sys.exit(main())
