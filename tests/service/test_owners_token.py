"""The owner's token is made, or given from outside as of a mounted secret."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import select

from braid.client.models import Role
from braid.core.errors import ConfigError
from braid.core.logging import log_to_file
from braid.home.paths import Home
from braid.home.service import ServiceHome
from braid.service.identity import identify
from braid.service.main import open_state
from braid.service.registry.tables import Token
from braid.service.settings import Settings


def test_the_owners_token_can_be_given(tmp_path: Path) -> None:
    def tokens(secret: str) -> tuple[str, int]:
        file = tmp_path / "given"
        file.write_text(f"{secret}\n")
        settings = Settings(home=tmp_path / "home", token_file=file)
        folder = ServiceHome(Home.at(settings.home))
        folder.make()
        with log_to_file(folder.root / "service.log", "service") as log:
            state = open_state(settings, log)
        with state.database.reading() as session:
            count = len(session.scalars(select(Token)).all())
            assert identify(session, secret, 0.0, "local").role is Role.ADMIN
        state.database.close()
        return folder.token_file.read_text().strip(), count

    assert tokens("a" * 40) == ("a" * 40, 1)
    assert tokens("a" * 40) == ("a" * 40, 1)
    assert tokens("b" * 40) == ("b" * 40, 1)
    for wrong in ("short", "a b" * 20):
        with pytest.raises(ConfigError, match="32 to 512"):
            tokens(wrong)
