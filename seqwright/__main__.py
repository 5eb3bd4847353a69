"""`python -m seqwright`: the command line without its script on the path."""

import sys

from seqwright.cli import main

if __name__ == "__main__":
    sys.exit(main())
