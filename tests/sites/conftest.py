import pytest

from .cases import Desk


@pytest.fixture
def two(tmp_path):
    return Desk(tmp_path, "a"), Desk(tmp_path, "b")
