"""Writing a lookup table: one process at a time, every batch exactly once."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from braid.core.errors import BraidError, StoreError
from braid.log.layout import TEMP_PREFIX
from braid.log.storage import Storage, naming
from braid.stores.lookup.database import NO_KEYS, OUTCOME, SWEPT, VERSION, WRITER, Database
from braid.stores.lookup.incoming import Incoming, Rows
from braid.stores.lookup.reader import check_version
from braid.stores.lookup.rows import Mask
from braid.stores.lookup.settings import DATA_PREFIX, FILE, LOCK, Settings
from braid.stores.lookup.values import NEVER, ValueCodec


@dataclass(frozen=True)
class Upserted:
    """What became of a batch of rows."""

    applied: bool
    """False if the batch was a replay, of which nothing is written; the rest is then as it was at first."""
    written: int = 0
    """Rows that were stored."""
    superseded: int = 0
    """Rows whose key has a newer row, in the batch or from before."""
    null_keys: int = 0
    """Rows with a NULL in their key, which nobody could ever find."""


_COUNTS = ("written", "superseded", "null_keys")
"""What is remembered of a writer's last batch, in the order of `Upserted`."""


class LookupWriter:
    """The only writer of a table, until it is closed or its process ends.

    Parameters
    ----------
    folder
        The folder of a table that exists.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        with ExitStack() as held:
            held.enter_context(_hold(folder))
            self._settings = Settings.load(folder)
            self._database = Database.write(folder / self._settings.data)
            held.callback(self._database.close)
            version = check_version(self._settings, self._database)
            if version > self._settings.version:  # the last writer was stopped before it could say so
                self._publish(version)
            _remove_others(folder, self._settings)
            self._held = held.pop_all()

    def upsert(
        self, rows: Rows, *, writer: str, batch_id: int, now_us: int, times: pa.Array | None = None
    ) -> Upserted:
        """Store a batch, all or nothing and durably; a batch that `writer` has written before is left out.

        Of the rows of one key the one with the latest event time stays, whichever batches they come in, and
        of several the last; a row without an event time is older than any with one.

        Parameters
        ----------
        rows
            Key and value columns by name. Value columns that are missing are NULL.
        writer, batch_id
            Who writes, and the number of the batch, which ascends per writer.
        now_us
            The wall clock, from which the rows' time to live counts.
        times
            Event times, a timestamp or int64 of microseconds per row.
        """
        last = self.last_batch(writer)
        if last is not None and batch_id <= last:
            return Upserted(False, *(self._outcome(writer, batch_id)))
        settings = self._settings
        incoming = Incoming.of(settings, rows, times, self._folder.name)
        newest = incoming.newest()
        if times is not None:
            newest[newest] = self._not_older(incoming, newest, now_us)
        swept = self._database.record(SWEPT)
        written, found = int(newest.sum()), len(newest)
        counts = (written, found - written, rows.num_rows - found)
        records = {WRITER + writer.encode(): batch_id, VERSION: settings.version + 1}
        records |= {_outcome_key(kind, writer): count for kind, count in zip(_COUNTS, counts, strict=True)}
        if swept is None:
            records[SWEPT] = now_us
        incoming.store(self._database, newest, now_us, records)
        self._publish(settings.version + 1)
        if settings.ttl is not None and swept is not None and now_us - swept >= settings.ttl:
            self.sweep(now_us)
        return Upserted(True, *counts)

    def last_batch(self, writer: str) -> int | None:
        """The last batch of a writer; None if there is none."""
        return self._database.record(WRITER + writer.encode())

    def _outcome(self, writer: str, batch_id: int) -> tuple[int, ...]:
        """What became of a batch, if it is the writer's last one; nothing is known of those before."""
        if batch_id != self.last_batch(writer):
            return ()
        return tuple(self._database.record(_outcome_key(kind, writer)) or 0 for kind in _COUNTS)

    def sweep(self, now_us: int) -> int:
        """Remove the rows that are too old, which readers do not see any more; how many there were.

        `upsert` does this by itself once per time to live.
        """
        if self._settings.ttl is None:
            return 0
        removed = 0
        codec = ValueCodec(self._settings.value)
        for keys, rows in self._database.scan():
            written, _ = codec.times(rows, self._database.where)
            old = written < now_us - self._settings.ttl
            if old.any():
                self._database.remove(keys.filter(pa.array(old)), {})
                removed += int(old.sum())
        self._database.remove(NO_KEYS, {SWEPT: now_us})
        if removed:
            self.compact()
        return removed

    def compact(self) -> None:
        """Merge the table's files, which makes reading faster; it happens little by little anyway."""
        self._database.compact()

    def change(self, settings: Settings) -> None:
        """Give the table the columns and the time to live of other settings."""
        version = self._settings.version + 1
        self._database.remove(NO_KEYS, {VERSION: version})
        self._settings = replace(self._settings, value=settings.value, ttl=settings.ttl)
        self._publish(version)

    def close(self) -> None:
        """Let others write."""
        self._held.close()

    def _publish(self, version: int) -> None:
        self._settings = replace(self._settings, version=version)
        self._settings.save(self._folder)

    def _not_older(self, incoming: Incoming, newest: Mask, now_us: int) -> Mask:
        """Of the newest rows of a batch, which are not older than what is stored under their keys."""
        stored = self._database.get(incoming.keys.encoded.filter(pa.array(newest)).to_pylist())
        written, times = ValueCodec(self._settings.value).times(stored, self._database.where)
        if self._settings.ttl is not None:
            # An expired record counts as missing, even if no sweep has removed it yet.
            times = np.where(written < now_us - self._settings.ttl, NEVER, times)
        result: Mask = incoming.times[incoming.keys.rows[newest]] >= times
        return result


def _outcome_key(kind: str, writer: str) -> bytes:
    return OUTCOME + f"{kind} {writer}".encode()


def build(folder: Path, settings: Settings, batches: Iterable[Rows], now_us: int, *, fresh: bool) -> int:
    """Make a table of some rows, in place of the one that may be there; how many keys were written.

    Readers see the old table until all of the new one is there. Writers go on where they were: what they
    wrote before counts as written.

    Parameters
    ----------
    folder
        The table's folder.
    settings
        Its columns and its time to live.
    batches
        Its rows; of one key, the last counts.
    now_us
        The wall clock.
    fresh
        Whether there must be no table yet.
    """
    Storage.open(folder).make_folder()
    with _hold(folder):
        if fresh and (folder / FILE).exists():
            raise StoreError(f"lookup table {folder.name!r} exists already", where=str(folder))
        records = _records(folder)
        settings = replace(settings, generation=_last_generation(folder) + 1, version=records[VERSION])
        database = Database.write(folder / settings.data, create=True)
        written = 0
        try:
            for rows in batches:
                incoming = Incoming.of(settings, rows, None, folder.name)
                newest = incoming.newest()
                incoming.store(database, newest, now_us, {})
                written += int(newest.sum())
            database.remove(NO_KEYS, records | {SWEPT: now_us})
            database.compact()
        finally:
            database.close()
        settings.save(folder)
        _remove_others(folder, settings)
    return written


def _records(folder: Path) -> dict[bytes, int]:
    """What a new generation of a table must remember of the last one, and the version that it gets."""
    try:
        database = Database.write(folder / Settings.load(folder).data)
    except BraidError:  # there is none, or it is damaged, and then replacing it is the way out
        return {VERSION: 1}
    try:
        records = database.records()
    finally:
        database.close()
    return records | {VERSION: records.get(VERSION, 0) + 1}


def _last_generation(folder: Path) -> int:
    found = (path.name.removeprefix(DATA_PREFIX) for path in folder.glob(f"{DATA_PREFIX}*"))
    return max((int(number) for number in found if number.isdigit()), default=-1)


def _remove_others(folder: Path, settings: Settings) -> None:
    """Remove what stopped writers have left; only for who holds the table."""
    for path in folder.iterdir():
        if path.name.startswith(DATA_PREFIX) and path.name != settings.data:
            shutil.rmtree(path, ignore_errors=True)
        elif path.name.startswith(TEMP_PREFIX):
            path.unlink(missing_ok=True)


@contextmanager
def _hold(folder: Path) -> Iterator[None]:
    """Keep others from writing the table; ends with the process at the latest."""
    with naming(str(folder / LOCK), "lock"):
        descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise StoreError(
            f"lookup table {folder.name!r} is being written by another process",
            where=str(folder),
            hint="stop the application that writes it, or wait until it is loaded",
        ) from None
    finally:
        os.close(descriptor)
