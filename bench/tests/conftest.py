from pathlib import Path

import pytest
from compare_generator import Generator, compiler


@pytest.fixture(scope="session")
def generator(tmp_path_factory: pytest.TempPathFactory) -> Generator:
    if compiler() is None:
        pytest.skip("no C compiler")
    directory: Path = tmp_path_factory.mktemp("load")
    return Generator(directory)
