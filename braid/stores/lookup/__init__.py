"""The lookup store: keyed tables in RocksDB, written exactly once, read in batches."""

from braid.stores.lookup.enrich import apply, enrich
from braid.stores.lookup.files import load_file
from braid.stores.lookup.reader import Found
from braid.stores.lookup.store import LookupStore
from braid.stores.lookup.table import LookupTable
from braid.stores.lookup.writer import Upserted

__all__ = ["Found", "LookupStore", "LookupTable", "Upserted", "apply", "enrich", "load_file"]
