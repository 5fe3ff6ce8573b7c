from __future__ import annotations

import pytest

from braid.core.errors import RunError
from braid.home.lease import Lease, check_lease, take_lease
from braid.home.paths import Home


def test_the_last_one_that_has_taken_it_has_it(home: Home) -> None:
    application = home.application("app")
    path = application.lease_file
    first = take_lease(application)
    check_lease(path, first)
    second = take_lease(application)
    check_lease(path, second)
    with pytest.raises(RunError, match="may not write for the application any more"):
        check_lease(path, first)
    found = Lease.read(path)
    assert found is not None
    assert found.generation == 2
    # Of an application that was dropped, and made again, nobody has the lease of before.
    path.unlink()
    with pytest.raises(RunError, match="nobody may"):
        check_lease(path, second)
    assert take_lease(application) != first
