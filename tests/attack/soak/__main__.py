"""`python -m tests.attack.soak`."""

import sys

from tests.attack.soak.runner import main

if __name__ == "__main__":
    sys.exit(main())
