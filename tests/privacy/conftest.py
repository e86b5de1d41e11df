"""Fixtures of the tests of privacy."""

import pytest

from tacit.privacy.accounting.composition import forget_compositions


@pytest.fixture(autouse=True)
def compositions_are_computed():
    """No test of the accountant sees a composition that an earlier test computed."""
    forget_compositions()
