"""Opens the registry: SQLite in WAL mode, or PostgreSQL, brought to the present schema."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError
from sqlalchemy.orm import Session, sessionmaker

from braid.core.errors import ConfigError, StoreError

MIGRATIONS = Path(__file__).with_name("migrations")
_READS = "braid_reads"
"""Option of connections whose transactions only read."""
_PATIENCE_MS = 10_000
"""How long a statement of SQLite waits for another process's."""


class Database:
    """The registry, opened.

    Parameters
    ----------
    url
        As SQLAlchemy writes it: `sqlite:///path`, or `postgresql://user@host/name`.
    """

    def __init__(self, url: str) -> None:
        try:
            parsed = make_url(url)
            if parsed.drivername in ("postgresql", "postgres"):
                parsed = parsed.set(drivername="postgresql+psycopg")
            self.engine: Engine = create_engine(parsed, pool_pre_ping=True, hide_parameters=True)
        except (ArgumentError, NoSuchModuleError, ModuleNotFoundError, ValueError) as error:
            # Other texts may quote the URL, which may have a password.
            known = isinstance(error, NoSuchModuleError | ModuleNotFoundError)
            raise ConfigError(
                f"the registry's URL cannot be used: {error if known else 'it is not one'}",
                hint="sqlite:///PATH, or postgresql://USER@HOST/NAME with the package psycopg",
            ) from None
        self.shown = parsed.set(query={}).render_as_string(hide_password=True)
        if self.engine.dialect.name == "sqlite":
            event.listen(self.engine, "connect", _prepare_sqlite)
            event.listen(self.engine, "begin", _begin_sqlite)
        reading = self.engine.execution_options(**{_READS: True})
        self._writing = sessionmaker(self.engine, expire_on_commit=False)
        self._reading = sessionmaker(reading, expire_on_commit=False)

    @contextmanager
    def transaction(self) -> Iterator[Session]:
        """A session, committed at the end of the block, or rolled back if it raises."""
        with self._writing.begin() as session:
            yield session

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """A session that only reads, which waits for nobody."""
        with self._reading.begin() as session:
            yield session

    def migrate(self, revision: str = "head") -> None:
        """Bring the schema up to date; made if there is none, refused if newer than the code."""
        config = Config()
        # A percent sign would begin a variable of the configuration's own.
        config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
        try:
            with self.engine.begin() as connection:
                self._check_known(connection, ScriptDirectory.from_config(config))
                config.attributes["connection"] = connection
                command.upgrade(config, revision)
        except SQLAlchemyError as error:
            raise StoreError(
                f"the registry cannot be opened: {getattr(error, 'orig', None) or error}",
                where=self.shown,
                hint="look whether the database is there, and may be written by this user",
            ) from None

    def _check_known(self, connection: Connection, scripts: ScriptDirectory) -> None:
        known = {script.revision for script in scripts.walk_revisions()}
        found = set(MigrationContext.configure(connection).get_current_heads()) - known
        if found:
            raise StoreError(
                f"the registry was made by a newer version of Braid: its schema is {min(found)}, "
                f"and this one knows those up to {scripts.get_current_head()}",
                where=self.shown,
                hint="install that version, or name another registry",
            )

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()


def _begin_sqlite(connection: Connection) -> None:
    """Begin a transaction: one that writes at once, so that what it has read is still so when it does.

    Python's driver would begin it later, when it writes.
    """
    reads = connection.get_execution_options().get(_READS, False)
    connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")


def _prepare_sqlite(connection: object, record: object) -> None:
    """Readers are not held up by a writer, and rows that others refer to are there."""
    connection.isolation_level = None  # type: ignore[attr-defined]
    cursor = connection.cursor()  # type: ignore[attr-defined]
    for setting in (
        "journal_mode=WAL",
        "foreign_keys=ON",
        f"busy_timeout={_PATIENCE_MS}",
        "synchronous=FULL",
    ):
        cursor.execute(f"PRAGMA {setting}")
    cursor.close()
