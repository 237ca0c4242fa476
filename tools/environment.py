"""Makes `.venv` and `node_modules` from the pins, or does nothing when they are as the pins say.

Needs the standard library only. Each of the two has a stamp, written last: without it the work was interrupted, and
starts again.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
NODE_MODULES = ROOT / "node_modules"
UNUSABLE = {":", "$"}
PIP_PLACES = ("PIP_TARGET", "PIP_PREFIX", "PIP_USER")


def fingerprint(*paths: Path) -> str:
    """A hash of these files and of where the tree lies (an editable install names its place)."""
    digest = hashlib.sha256(os.fsencode(ROOT))
    for path in paths:
        digest.update(path.read_bytes())
    return digest.hexdigest()


def is_current(stamp: Path, mark: str) -> bool:
    """Whether the work that ends with writing `stamp` was finished, and for these very inputs."""
    return stamp.is_file() and stamp.read_text(encoding="utf-8") == mark


def works(python: Path) -> bool:
    """Whether this interpreter starts: the one that it was made from may have been removed."""
    try:
        return subprocess.run([python, "-c", "import sys"], stderr=subprocess.DEVNULL).returncode == 0
    except OSError:
        return False


def make_venv() -> None:
    """Install `requirements.txt` and the package into `.venv`."""
    stamp = VENV / ".complete"
    mark = fingerprint(ROOT / "requirements.txt", ROOT / "pyproject.toml")
    usable = works(PYTHON)
    if usable and is_current(stamp, mark):
        return
    if VENV.exists() and not (usable and stamp.is_file()):
        print("Removing .venv, which an interrupted run or another Python left behind", flush=True)
        shutil.rmtree(VENV)
    stamp.unlink(missing_ok=True)
    if not VENV.exists():
        if held := UNUSABLE & set(str(ROOT)):
            sys.exit(f"venv and setuptools cannot work in a path that holds {' '.join(held)}: move the folder {ROOT}")
        print(f"Making .venv with Python {sys.version.split()[0]}", flush=True)
        run([sys.executable, "-m", "venv", ".venv"])
    print("Installing what requirements.txt pins (minutes the first time, most of them for PyTorch)", flush=True)
    pip = [PYTHON, "-m", "pip", "install", "--no-compile", "--disable-pip-version-check", "--quiet"]
    run([*pip, "--requirement", "requirements.txt"])
    run([*pip, "--no-deps", "--no-build-isolation", "--editable", "."])
    stamp.write_text(mark, encoding="utf-8")


def make_node_modules() -> None:
    """Install what `package-lock.json` pins, with the Node that came into `.venv` as a wheel. No script is run."""
    stamp = NODE_MODULES / ".complete"
    mark = fingerprint(ROOT / "package.json", ROOT / "package-lock.json", ROOT / ".npmrc")
    if is_current(stamp, mark):
        return
    print("Installing the front-end libraries that package-lock.json pins", flush=True)
    stamp.unlink(missing_ok=True)
    run([PYTHON, "-m", "tools.npm", "ci", "--ignore-scripts", "--loglevel=error"])
    stamp.write_text(mark, encoding="utf-8")


def run(command: list) -> None:
    """Run a command in the tree's root; end with its status if it fails, since it has said why."""
    env = {name: value for name, value in os.environ.items() if name not in PIP_PLACES}
    status = subprocess.run(command, cwd=ROOT, env=env).returncode
    if status:
        sys.exit(f"Stopped: {' '.join(map(str, command[1:4]))} … ended with status {status}")


if __name__ == "__main__":
    make_venv()
    make_node_modules()
