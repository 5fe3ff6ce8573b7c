"""Who writes a folder: a small file in it names its owner, as the settings of a category do."""

from __future__ import annotations

import os
import uuid
from pathlib import Path

from braid.core.errors import RunError
from braid.core.owner import NOBODY, Owner
from braid.home.records import Record

OWNER_FILE = "_owner.json"
"""In the folder of a lookup table or a warehouse table; readers of Parquet pass over such names."""


class OwnerRecord(Record):
    """The content of `_owner.json`; empty texts if the folder was released."""

    application: str
    stage: str


def read_owner(folder: Path) -> Owner | None:
    """The owner of a folder; None if none was ever named, `NOBODY` if it was released."""
    found = OwnerRecord.read(folder / OWNER_FILE)
    return None if found is None else Owner(found.application, found.stage)


def claim_folder(folder: Path, owner: Owner) -> None:
    """Become the owner of a folder, or stay it; raise `RunError` if another application is."""
    path = folder / OWNER_FILE
    record = OwnerRecord(application=owner.application, stage=owner.stage)
    folder.mkdir(parents=True, exist_ok=True)
    fresh = folder / f".{uuid.uuid4().hex}.tmp"
    record.write(fresh)
    try:
        os.link(fresh, path)
    except FileExistsError:
        found = read_owner(folder)
        if found is not None and found != NOBODY and found.application != owner.application:
            raise RunError(f"{found.text} writes it already", where=str(folder)) from None
        record.write(path)
    finally:
        fresh.unlink()


def release_folder(folder: Path) -> None:
    """Leave a folder to whoever writes to it next."""
    OwnerRecord(application=NOBODY.application, stage=NOBODY.stage).write(folder / OWNER_FILE)
