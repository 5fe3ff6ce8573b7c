"""Files of the log over `pyarrow.fs`: whole small records, published atomically, and large data files."""

from __future__ import annotations

import errno
import fcntl
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyarrow import fs

from braid.core.errors import LogError
from braid.log import durable
from braid.log.layout import LOCK_FILE, TEMP_PREFIX

_HINTS = {
    errno.ENOSPC: "free some space, or shorten the retention; nothing was published",
    errno.EDQUOT: "raise the quota, or shorten the retention; nothing was published",
    errno.EFBIG: "raise the limit on file sizes; nothing was published",
    errno.EACCES: "check who owns the log and the permissions of this path",
    errno.EPERM: "check permissions, and that the filesystem supports hard links",
}


@contextmanager
def naming(path: str, doing: str) -> Iterator[None]:
    """Turn an operating system's or Arrow's error into a `LogError` that names the file."""
    try:
        yield
    except FileNotFoundError as error:
        raise LogError(
            f"cannot {doing}: the file does not exist",
            where=path,
            hint="restore it, or check that retention has not removed it",
        ) from error
    except (OSError, pa.ArrowException) as error:
        code = getattr(error, "errno", None)
        reason = os.strerror(code) if code else str(error)
        raise LogError(f"cannot {doing}: {reason}", where=path, hint=_HINTS.get(code or 0)) from error


@dataclass(frozen=True)
class FileInfo:
    """One file of a listing."""

    path: str
    modified: float
    size: int


@dataclass(frozen=True)
class Storage:
    """A folder on some filesystem; all paths are relative to it and use `/`."""

    filesystem: fs.FileSystem
    root: str

    @classmethod
    def open(cls, root: str | Path, filesystem: fs.FileSystem | None = None) -> Storage:
        """Storage under `root`: a path, a URI such as `s3://bucket/log`, or a path on `filesystem`."""
        if filesystem is not None:
            return cls(filesystem, str(root).rstrip("/"))
        if "://" in str(root):
            with naming(str(root), "open the filesystem"):
                found, path = fs.FileSystem.from_uri(str(root))
            return cls(found, path.rstrip("/"))
        return cls(fs.LocalFileSystem(), str(Path(root).absolute()))

    @property
    def local(self) -> bool:
        """Whether files are on a local disk, which allows memory maps, links and locks."""
        return isinstance(self.filesystem, fs.LocalFileSystem)

    def full(self, path: str) -> str:
        """Path on the filesystem."""
        return "/".join(part for part in (self.root, path) if part)

    def within(self, folder: str) -> Storage:
        """Storage of a folder below this one."""
        return Storage(self.filesystem, self.full(folder))

    def make_folder(self, path: str = "") -> None:
        """Create a folder and those above it, if missing."""
        full = Path(self.full(path))
        with naming(str(full), "create the folder"):
            missing = [p for p in (full, *full.parents) if self.local and not p.exists()]
            self.filesystem.create_dir(str(full), recursive=True)
            for folder in missing:
                durable.sync(str(folder.parent))

    def exists(self, path: str) -> bool:
        """Whether there is a file at `path`."""
        full = self.full(path)
        with naming(full, "look for the file"):
            return bool(self.filesystem.get_file_info(full).type == fs.FileType.File)

    def read(self, path: str) -> bytes:
        """Whole content of a small file."""
        full = self.full(path)
        with naming(full, "read"), self.filesystem.open_input_file(full) as file:
            return bytes(file.readall())

    def create(self, path: str, data: bytes) -> bool:
        """Publish a file under a name that must be free; return False, changing nothing, if it is not.

        Local disks: all or nothing, durable once this returns, and of any number of racing callers
        exactly one gets True. HDFS: the same, since its rename refuses a name that is taken. Other
        stores: all or nothing, but `pyarrow.fs` has no exclusive create, so that two callers who race
        within milliseconds may both get True; there, a category needs the one writer that Spark gives it.
        """
        full = self.full(path)
        temporary = self._temporary(full)
        if self.exists(path):
            return False
        with naming(full, "publish"):
            try:
                if self.local:
                    durable.write(temporary, data)
                    durable.link(temporary, full)
                    durable.sync(str(Path(full).parent))
                    return True
                self._write(temporary, data)
                self.filesystem.move(temporary, full)
            except FileExistsError:
                return False
            except OSError:
                # Object stores raise errors of their own when the target of a move exists. On a local disk,
                # any other error is a failure: if the file is there it is ours, and could not be synced.
                if not self.local and self.exists(path):
                    return False
                raise
            finally:
                self._discard(temporary)
        return self.read(path) == data

    def link_from(self, other: Storage, path: str) -> None:
        """Have a file of another folder under the same path here, too: no byte is copied, neither can change.

        The caller syncs the folder.
        """
        full = self.full(path)
        if not (self.local and other.local):
            raise LogError(
                "files can only be linked on a local disk, or one that is mounted like one", where=full
            )
        with naming(full, "link"):
            durable.link(other.full(path), full)

    def sync(self, folder: str) -> None:
        """Wait until the list of files of a folder on a local disk is on the disk."""
        full = self.full(folder)
        with naming(full, "sync"):
            durable.sync(full)

    def replace(self, path: str, data: bytes) -> None:
        """Exchange the content of a small file, all or nothing; callers hold the `lock`.

        Where a rename refuses a name that is taken (HDFS), the old file goes first, and for that moment
        there is none.
        """
        full = self.full(path)
        temporary = self._temporary(full)
        with naming(full, "replace"):
            try:
                if self.local:
                    durable.write(temporary, data)
                    durable.replace(temporary, full)
                    durable.sync(str(Path(full).parent))
                else:
                    self._write(temporary, data)
                    self._rename_over(temporary, full)
            finally:
                self._discard(temporary)

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Keep others from changing this folder's records; a process that dies lets go.

        Only local disks have locks. Elsewhere those who change a category's settings must not race.
        """
        if not self.local:
            yield
            return
        full = self.full(LOCK_FILE)
        with naming(full, "lock"):
            descriptor = os.open(full, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            with naming(full, "lock"):
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    @contextmanager
    def output(self, path: str) -> Iterator[pa.NativeFile]:
        """A new file to write; it is durable when the block ends, and removed if the block fails."""
        full = self.full(path)
        with naming(full, "write"):
            try:
                with self.filesystem.open_output_stream(full) as sink:
                    yield sink
                if self.local:
                    durable.sync(full)
                    durable.sync(str(Path(full).parent))
            except BaseException:
                self._discard(full)
                raise

    def remove(self, path: str) -> None:
        """Remove a file if it is there."""
        full = self.full(path)
        with naming(full, "remove"):
            if self.local:
                durable.remove(full)
            elif self.exists(path):
                self.filesystem.delete_file(full)

    def remove_folder(self, path: str) -> None:
        """Remove a folder with all that is in it; on local disks its name is free at once."""
        full = self.full(path)
        with naming(full, "remove"):
            if self.local:
                trash = self._temporary(full)
                durable.replace(full, trash)
                durable.sync(self.root)
                full = trash
            self.filesystem.delete_dir(full)

    def rename_folder(self, path: str, name: str) -> None:
        """Give a folder on a local disk another name, durably; nothing but an empty folder may have it."""
        full = self.full(name)
        with naming(full, "rename"):
            durable.replace(self.full(path), full)
            durable.sync(self.root)

    def folders(self) -> list[str]:
        """Names of the folders directly below."""
        with naming(self.root, "list"):
            selector = fs.FileSelector(self.root, allow_not_found=True)
            found = self.filesystem.get_file_info(selector)
        return sorted(f.base_name for f in found if f.type == fs.FileType.Directory)

    def files(self) -> list[FileInfo]:
        """All files below, at any depth. Slow where there are many: only upkeep may call it."""
        with naming(self.root, "list"):
            found = self.filesystem.get_file_info(fs.FileSelector(self.root, recursive=True))
        return [
            FileInfo(f.path[len(self.root) + 1 :], (f.mtime_ns or 0) / 1e9, f.size)
            for f in found
            if f.type == fs.FileType.File
        ]

    def _temporary(self, full: str) -> str:
        return f"{full.rpartition('/')[0]}/{TEMP_PREFIX}{uuid.uuid4().hex}"

    def _rename_over(self, source: str, target: str) -> None:
        try:
            self.filesystem.move(source, target)
        except OSError:
            self.filesystem.delete_file(target)
            self.filesystem.move(source, target)

    def _write(self, full: str, data: bytes) -> None:
        with self.filesystem.open_output_stream(full) as sink:
            sink.write(data)

    def _discard(self, full: str) -> None:
        """Remove what is left of a failed or finished attempt; a sweep gets what this cannot."""
        try:
            if self.local:
                durable.remove(full)
            elif self.filesystem.get_file_info(full).type == fs.FileType.File:
                self.filesystem.delete_file(full)
        except OSError:
            return
