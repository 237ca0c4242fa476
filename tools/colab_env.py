"""Makes `.venv-colab`: the versions that a Colab runtime has, for the tests that run the chapters with them.

The versions are data, `tests/data/colab-packages.txt`; its first line says where they come from. What is installed is
what the package asks for, and what running a notebook takes. Two things differ from Colab: Python is the one of this
environment, and PyTorch is the one of this environment too, linked instead of installed a second time.
"""

from __future__ import annotations

import re
import shutil
import sys
import sysconfig
import tomllib
from importlib.metadata import distribution, version
from pathlib import Path

from tools.environment import ROOT, fingerprint, is_current, run, works

VENV = ROOT / ".venv-colab"
PYTHON = VENV / "bin" / "python"
PACKAGES = ROOT / "tests" / "data" / "colab-packages.txt"
TO_RUN_NOTEBOOKS = ["ipython", "ipykernel", "jupyter_client", "pandas", "ml_dtypes", "pytest"]
LINKED = re.compile(r"torch|triton|nvidia-.*|cuda-.*")  # PyTorch and what its builds for GPUs bring along
NOT_CONSTRAINED = re.compile(r"torch.*|triton|nvidia-.*|cuda-.*|pip|setuptools|wheel")


def name_of(requirement: str) -> str:
    """The package that a requirement names, as pip compares names."""
    return re.sub(r"[-_.]+", "-", re.match(r"[\w.-]+", requirement)[0]).lower()


def colab_versions() -> dict[str, str]:
    """The version of each package on Colab."""
    lines = [line for line in PACKAGES.read_text(encoding="utf-8").splitlines() if "==" in line]
    return {name_of(line): line.split("==")[1] for line in lines if not line.startswith("#")}


def dependencies() -> list[str]:
    """What the package asks for, from `pyproject.toml`."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]


def _torch_needs() -> list[str]:
    return [need for need in distribution("torch").requires or [] if "extra ==" not in need]


def link(name: str) -> None:
    """Let `.venv-colab` use this environment's copy of a distribution."""
    target = Path(sysconfig.get_path("purelib", vars={"base": str(VENV), "platbase": str(VENV)}))
    source = Path(distribution(name).locate_file(""))
    for top in {file.parts[0] for file in distribution(name).files or []} - {"..", "__pycache__"}:
        place = target / top
        if place.is_dir() and not place.is_symlink():  # a namespace such as nvidia/, shared by several distributions
            for inner in (source / top).iterdir():
                if not (place / inner.name).exists():
                    (place / inner.name).symlink_to(inner)
        elif not place.exists():
            place.symlink_to(source / top)


def make() -> None:
    """Make the environment, or do nothing when it is as the lists say."""
    stamp = VENV / ".complete"
    inputs = [PACKAGES, ROOT / "pyproject.toml", ROOT / "requirements.txt", Path(__file__)]
    mark = f"{fingerprint(*inputs)} {sys.prefix} {sys.version}"
    if works(PYTHON) and is_current(stamp, mark):
        return
    shutil.rmtree(VENV, ignore_errors=True)
    print(f"Making .venv-colab with Colab's versions, and PyTorch {version('torch')} in place of Colab's "
          f"{colab_versions()['torch']}", flush=True)
    run([sys.executable, "-m", "venv", ".venv-colab"])
    constraints = VENV / "constraints.txt"
    constraints.write_text("\n".join(f"{name}=={number}" for name, number in colab_versions().items()
                                     if not NOT_CONSTRAINED.fullmatch(name)), encoding="utf-8")
    wanted = [*dependencies(), *TO_RUN_NOTEBOOKS, *_torch_needs(), f"nbval=={version('nbval')}"]
    pip = [PYTHON, "-m", "pip", "install", "--no-compile", "--disable-pip-version-check", "--quiet"]
    run([*pip, "--constraint", constraints, *(need for need in wanted if not LINKED.fullmatch(name_of(need)))])
    for name in ["torch", *filter(LINKED.fullmatch, map(name_of, _torch_needs()))]:
        link(name)
    run([*pip, "--no-deps", "--no-build-isolation", "--editable", "."])
    run([PYTHON, "-m", "pip", "check", "--disable-pip-version-check"])
    stamp.write_text(mark, encoding="utf-8")


if __name__ == "__main__":
    make()
