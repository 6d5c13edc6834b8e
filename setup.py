"""Packaging that ``pyproject.toml`` cannot say: where the ``twistd`` plugin file goes.

``package_dir`` makes an editable install put this directory itself on the path, so that ``twistd`` sees
``twisted/plugins``. That directory has no ``__init__.py`` on purpose: in a wheel it would overwrite Twisted's own.
"""

from setuptools import find_packages, setup

setup(
    package_dir={"": "."},
    packages=[*find_packages(include=["bussrv", "bussrv.*"]), "twisted.plugins"],
    package_data={
        "bussrv": ["py.typed"],
        "bussrv.admin": ["static/*", "static/**/*"],
        "bussrv.audit.report": ["templates/*", "templates/chapters/*"],
    },
)
