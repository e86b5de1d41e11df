"""Property tests draw the same examples every time, so that a verdict is about the change.

`--hypothesis-profile=explore` draws new ones.
"""

import os
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("explore", deadline=None, print_blob=True)
settings.register_profile("steady", settings.get_profile("explore"), derandomize=True)
settings.load_profile("steady")


BESIDE = Path(__file__).parents[2] / "shared" / "data"


@pytest.fixture
def data_folder(monkeypatch):
    """The folder of the published data sets; where there is none, the test is skipped."""
    found = Path(os.environ.get("TACIT_DATA") or BESIDE)
    if not found.is_dir():
        pytest.skip(f"no data sets: TACIT_DATA is not set and there is no {BESIDE}")
    monkeypatch.setenv("TACIT_DATA", str(found.resolve()))
    return found
