"""The one programmatic surface of Braid, which the command line and the service are thin layers over.

Programs: `compile_text`, `compile_file`, `load_plan`, `explain`, `diff`. Nothing of these runs anything.
Applications: `run` starts one and gives its `Application`; `stop` ends one, whoever runs it; `status` and
`application_status` tell what those of a home do, `top` what they achieve and use; `running_plan` what one of
them runs, and `running_overrides` which options were set at its start; `open_spark` starts a Spark that
several of them share; `update_of` tells what it takes to go on as another program, `versions` and
`version_plan` what it has run before; `rescale` gives a running one other shards, and `release` lets others
write what one of them owns.
Data: `publish`, `publish_file`, `publish_lines` and `Publisher` append records, `read` and `read_batches`
read rows, `categories` lists.
Savepoints: `savepoint` takes one, `savepoints` lists them, `restore` makes an application of one, which `run`
does, too, and `drop_savepoint` removes one.
Upkeep: `upkeep` looks after the log of a home, `drop_category` and `drop_application` remove for good.
Lookup tables: `load_lookup`, `get_lookup`, `lookup_tables`.

What is below (`braid.plan`, `braid.spark`, ...) may change without notice.
"""

from typing import TYPE_CHECKING

from braid.api.applications import (
    application_status,
    open_spark,
    release,
    rescale,
    run,
    running_overrides,
    status,
    stop,
    update_of,
    version_plan,
    versions,
)
from braid.api.data import (
    CategoryInfo,
    Publisher,
    categories,
    publish,
    publish_file,
    publish_lines,
    read,
    read_batches,
)
from braid.api.lookup import LookupInfo, get_lookup, load_lookup, lookup_tables
from braid.api.programs import (
    FORMATS,
    Compiled,
    compile_file,
    compile_text,
    diff,
    diff_json,
    diff_text,
    explain,
    load_plan,
)
from braid.api.savepoints import (
    SavepointInfo,
    drop_savepoint,
    restore,
    savepoint,
    savepoints,
)
from braid.api.top import top
from braid.api.upkeep import drop_application, drop_category, upkeep
from braid.engine.drop import Dropped
from braid.engine.upkeep import CategoryReport, TableReport, UpkeepReport
from braid.engine.upkeep_rules import Holder
from braid.plan.stages.base import Plan
from braid.plan.update.rules import Verdict
from braid.spark.last_run import running_plan

if TYPE_CHECKING:
    # Importing it needs PySpark, which `run` does when it is called.
    from braid.spark.app import Application as Application
    from braid.spark.shared import SharedSpark as SharedSpark
    from braid.spark.updating import Update as Update

__all__ = [
    "FORMATS",
    "CategoryInfo",
    "CategoryReport",
    "Compiled",
    "Dropped",
    "Holder",
    "LookupInfo",
    "Plan",
    "Publisher",
    "SavepointInfo",
    "TableReport",
    "UpkeepReport",
    "Verdict",
    "application_status",
    "categories",
    "compile_file",
    "compile_text",
    "diff",
    "diff_json",
    "diff_text",
    "drop_application",
    "drop_category",
    "drop_savepoint",
    "explain",
    "get_lookup",
    "load_lookup",
    "load_plan",
    "lookup_tables",
    "open_spark",
    "publish",
    "publish_file",
    "publish_lines",
    "read",
    "read_batches",
    "release",
    "rescale",
    "restore",
    "run",
    "running_overrides",
    "running_plan",
    "savepoint",
    "savepoints",
    "status",
    "stop",
    "top",
    "update_of",
    "upkeep",
    "version_plan",
    "versions",
]
