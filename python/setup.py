"""Puts the library and its data into the package: run make first."""
import os
import shutil
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:  # before setuptools 70.1
    from wheel.bdist_wheel import bdist_wheel

TREE = Path(__file__).resolve().parent.parent
# The same tree makes the same bytes: files in the wheel are as old as this, not as the clone.
os.environ.setdefault("SOURCE_DATE_EPOCH", "315532800")
os.umask(0o022)
DATA = ["models", "hardware", "plans", "plots", "accuracy"]


class BuildWithLibrary(build_py):
    def run(self):
        shutil.rmtree(Path(self.build_lib), ignore_errors=True)  # of an earlier tree
        super().run()
        library = TREE / "build" / "libtdp.so"
        if not library.exists():
            raise SystemExit(f"{library}: is not there: run make first")
        package = Path(self.build_lib) / "tdp"
        (package / "lib").mkdir(parents=True, exist_ok=True)
        shutil.copy(library, package / "lib")
        for folder in DATA:
            shutil.copytree(TREE / folder, package / folder, dirs_exist_ok=True)
        for path in package.rglob("*"):  # whoever made the clone, everybody may read it
            path.chmod(0o755 if path.is_dir() or path.suffix == ".so" else 0o644)


class AnyPython(bdist_wheel):
    """The library is reached by ctypes: one wheel a platform, for every Python 3."""

    def get_tag(self):
        return "py3", "none", super().get_tag()[2]


class Native(Distribution):

    def has_ext_modules(self):
        return True


setup(packages=["tdp"], package_data={"tdp": ["py.typed"]},
      cmdclass={"build_py": BuildWithLibrary, "bdist_wheel": AnyPython}, distclass=Native)
