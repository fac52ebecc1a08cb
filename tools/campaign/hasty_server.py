"""Runs `lexlip serve` with few files and little patience.

python -m tools.campaign.hasty_server FILES OPTION...
"""

import resource
import sys

from lexlip.cli import main
from lexlip.server import connections

if __name__ == "__main__":
    files = int(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    connections.HEAD = connections.TAKING = 1.0
    main(["serve", *sys.argv[2:]])
