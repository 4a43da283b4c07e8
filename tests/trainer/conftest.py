import pytest

from .runs import taught_hop


@pytest.fixture(scope="session")
def _taught():
    """Warm starts run an event loop of their own, so they are made before the tests' loops."""
    return taught_hop()
