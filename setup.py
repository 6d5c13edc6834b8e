"""Packaging that ``pyproject.toml`` cannot say: where the ``twistd`` plugin file goes, and the compiled module.

``package_dir`` makes an editable install put this directory itself on the path, so that ``twistd`` sees
``twisted/plugins``. That directory has no ``__init__.py`` on purpose: in a wheel it would overwrite Twisted's own.

The compiled module is optional: without a C compiler the installation succeeds, and the server does the same, slower.
One build serves every supported version of Python.
"""

from pathlib import Path

from setuptools import Extension, find_packages, setup
from setuptools.command.build_ext import build_ext


class FreshBuild(build_ext):
    """If the module cannot be built, one of an earlier build does not take its place."""

    def build_extension(self, ext: Extension) -> None:
        """Build the module.

        :raises CompileError: that is reported, and the installation goes on without the module.
        """
        try:
            super().build_extension(ext)
        except Exception:
            Path(self.get_ext_fullpath(ext.name)).unlink(missing_ok=True)
            raise


setup(
    cmdclass={"build_ext": FreshBuild},
    package_dir={"": "."},
    packages=[*find_packages(include=["bussrv", "bussrv.*"]), "twisted.plugins"],
    package_data={
        "bussrv": ["py.typed", "_speedups.pyi"],
        "bussrv.admin": ["static/*", "static/**/*"],
        "bussrv.audit.report": ["templates/*"],
        "bussrv.formats.websocket": ["client.js"],
    },
    ext_modules=[
        Extension(
            "bussrv._speedups",
            ["bussrv/_speedups.c"],
            define_macros=[("Py_LIMITED_API", "0x030A0000")],
            # Some Pythons are built with less. A compiler that does not know the option ignores it.
            extra_compile_args=["-O3"],
            py_limited_api=True,
            optional=True,
        )
    ],
    options={"bdist_wheel": {"py_limited_api": "cp310"}},
)
