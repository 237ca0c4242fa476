"""Runs a chapter under nbval: every cell is executed, and what is kept in the notebook is compared with what comes out.

It runs in a process of its own, so that a chapter is one test, whatever plugins and workers the tests around it have,
and so that the same call serves another environment's Python.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from bookfiles import ROOT

DATA = ROOT / "tests" / "data"
_COLORS = re.compile(r"\x1b\[[0-9;]*m")


def run_under_nbval(python: Path | str, notebook: Path, *options: str) -> subprocess.CompletedProcess:
    """Run the notebook with this Python's kernel; the report is in `stdout`. `options` go to pytest."""
    from tools.execute import KERNEL_ENVIRONMENT

    command = [python, "-m", "pytest", "-c", DATA / "nbval.ini", "-p", "nbval.plugin", "-p", "no:cacheprovider",
               "--nbval-sanitize-with", DATA / "nbval_sanitize.cfg", *options, notebook]
    # SIXTEENBITS_STATIC is empty: as for a reader with a kernel, whose consoles are live.
    environment = {**os.environ, **KERNEL_ENVIRONMENT, "SIXTEENBITS_STATIC": "", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
                   "PYTEST_ADDOPTS": "", "PYTHONDONTWRITEBYTECODE": "1"}
    environment.pop("PYTEST_XDIST_WORKER", None)
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)


def assert_passed(run: subprocess.CompletedProcess) -> None:
    """Show the report of a run that failed: it names each cell that did."""
    assert run.returncode == 0, _COLORS.sub("", f"\n{run.stdout}\n{run.stderr}")
