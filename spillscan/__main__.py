"""``python -m spillscan``."""

import sys

from spillscan.cli import main

sys.exit(main())
