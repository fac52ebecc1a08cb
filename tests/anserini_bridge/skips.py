"""Marks of tests that a system or a lean installation cannot run; each skips with its reason."""

import sys

import pytest

from anserini_bridge.jvm import has_anserini
from anserini_bridge.storage import WINDOWS

needs_anserini = pytest.mark.skipif(
    not has_anserini(), reason="needs Anserini's jar: pip install 'lexlip[anserini]'"
)
needs_limits = pytest.mark.skipif(WINDOWS, reason="needs limits of a process, which Windows lacks")
needs_fork = pytest.mark.skipif(WINDOWS, reason="needs os.fork, which Windows lacks")
needs_pipes = pytest.mark.skipif(WINDOWS, reason="needs pipes and links that have a name in a folder")
needs_holes = pytest.mark.skipif(WINDOWS, reason="needs files with holes, or it would fill the disk")
needs_shell = pytest.mark.skipif(WINDOWS, reason="needs a shell script to stand for Java")
needs_folder_sync = pytest.mark.skipif(WINDOWS, reason="Windows makes no folders durable")
needs_unlink_of_open = pytest.mark.skipif(WINDOWS, reason="Windows deletes no file that is open")
pretends_windows = pytest.mark.skipif(WINDOWS, reason="does here what Windows would: this is Windows")
of_linux = pytest.mark.skipif(
    sys.platform != "linux", reason="looks into the folder that Java uses for temporary files on Linux"
)
