"""Every code block of the README and the documentation runs, and prints what the page shows."""

import pytest

from tests.docs.blocks import PAGES, ROOT
from tests.docs.page_run import run_page


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_block_of_the_page_runs(page, tmp_path):
    problem = run_page(page, tmp_path / "page")
    if problem:
        pytest.fail(problem, pytrace=False)
