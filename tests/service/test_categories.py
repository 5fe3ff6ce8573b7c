"""Many who ask what is in the log cost no more than one."""

from __future__ import annotations

import pytest

from braid import api
from braid.api.data import publish
from braid.home.paths import Home
from braid.service.categories import Categories


def test_what_took_long_to_find_is_told_for_longer(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    home, now, looked = Home.at(str(tmp_path)), [100.0], []
    found = api.categories

    def slowly(where: Home) -> list[api.CategoryInfo]:
        looked.append(where)
        now[0] += 0.5
        return found(where)

    monkeypatch.setattr(api, "categories", slowly)
    known = Categories(home, lambda: now[0])
    publish("a", ['{"x": 1}'], home)
    assert [(one.name, one.rows) for one in known.get()] == [("a", 1)]
    publish("a", ['{"x": 2}'], home)
    now[0] += 9.9
    assert [one.rows for one in known.get()] == [1]
    assert len(looked) == 1
    now[0] += 0.2
    assert [one.rows for one in known.get()] == [2]
    assert len(looked) == 2
