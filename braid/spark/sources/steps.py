"""The source of an operator: reads commit records only, admits inputs, and emits a reference per shard.

What is admitted is decided in `braid.engine.admission`; here are Spark's offsets, the clock, and the files by
which the driver and the sinks tell the source what it has to know.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

from braid.core.errors import LogError
from braid.core.json_values import Json
from braid.core.times import SECOND, now_micros
from braid.engine.admission import Admission, AdmissionConfig, Admitted, Facts
from braid.engine.cadence import Due
from braid.engine.inputs import InputLog
from braid.engine.offsets import OperatorOffset
from braid.engine.savepoints import Savepoint
from braid.home.buffered import read_buffered
from braid.home.control import ReadUpTo, Seal
from braid.home.pacing import Pacing
from braid.log.shared import reader
from braid.spark.sources.category import SOURCE
from braid.spark.sources.waiting import Waiting

REFERENCES = "slot int, shard int, step string"
"""Reference rows: the state key of a shard, the shard, and the micro-batch as JSON."""


@dataclass(frozen=True)
class Fed:
    """What an input is sliced from.

    Parameters
    ----------
    category
        The category that the slicer reads.
    published_file
        Where its sink says up to where what it has read is published.
    read_file
        Where its source says how far it reads: an earlier version said only that.
    """

    category: str
    published_file: str
    read_file: str

    def has_more(self, root: str) -> bool:
        """Whether there are records that the slicer has not published yet, dead letters and all."""
        told = ReadUpTo.read(Path(self.published_file)) or ReadUpTo.read(Path(self.read_file))
        try:
            log = reader(root, self.category)
            following = log.first if told is None else told.following[SOURCE][0]
            return log.grown(following - 1)
        except LogError:
            return False  # the category is gone


@dataclass(frozen=True)
class StepSourceConfig:
    """What the source needs to know; travels as JSON in one option.

    Parameters
    ----------
    root
        Root of the log.
    admission
        How inputs are admitted.
    state_keys
        State key of every shard, in order.
    drain_file
        While it exists, what is in the log is all there will be.
    status_file
        Where to say what is paused, and why.
    read_file
        Where to say how far a micro-batch reads, if its sink needs it.
    fed
        Per input that a stage slices from another category, what tells whether there is more to come: while
        there is, the input is not taken for idle, however long it takes.
    held_files
        Per input, where the joins upstream say how many rows they hold: while they hold any, the input is not
        taken for idle. Only for inputs whose late rows would be lost.
    buffered_file
        Where the sink says how many rows the operator buffers, if that has a limit.
    cadence_file
        Where the driver says how often to run, if it does.
    seal_file
        Where the driver asks for a savepoint.
    savepoint
        Path of the savepoint to begin from; None to begin with the oldest chunks.
    """

    root: str
    admission: AdmissionConfig
    state_keys: tuple[int, ...]
    drain_file: str
    status_file: str
    read_file: str | None = None
    fed: Mapping[str, Fed] = field(default_factory=dict)
    held_files: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    buffered_file: str | None = None
    cadence_file: str | None = None
    seal_file: str | None = None
    savepoint: str | None = None

    def to_json(self) -> str:
        """The configuration as text."""
        plain = asdict(replace(self, admission=None))  # type: ignore[arg-type]
        return json.dumps({**plain, "admission": self.admission.to_json()})

    @classmethod
    def from_json(cls, text: str) -> StepSourceConfig:
        """Read back what `to_json` gave."""
        value = json.loads(text)
        admission = AdmissionConfig.from_json(value["admission"])
        fed = {name: Fed(**one) for name, one in value["fed"].items()}
        return cls(**{**value, "admission": admission, "state_keys": tuple(value["state_keys"]), "fed": fed})


class StepSource(DataSource):
    """Admits the inputs of an operator. Option: `config`."""

    @classmethod
    def name(cls) -> str:
        """Name for `spark.readStream.format`."""
        return "braid_steps"

    def schema(self) -> str:
        """Reference rows."""
        return REFERENCES

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """The reader of one streaming query."""
        return StepReader(StepSourceConfig.from_json(self.options["config"]))


@dataclass
class Reference(InputPartition):
    """A micro-batch as JSON."""

    step: str


class StepReader(DataSourceStreamReader):
    """Offsets hold everything that a decision depends on, so that a replayed micro-batch is the same one."""

    def __init__(
        self,
        config: StepSourceConfig,
        clock: Callable[[], int] = now_micros,
        waiting: Waiting | None = None,
    ) -> None:
        self._config = config
        self._clock = clock
        categories = config.admission.inputs.items()
        logs = {name: InputLog(reader(config.root, category)) for name, category in categories}
        self._logs = tuple(logs.values())
        self._admission = Admission(config.admission, logs)
        self._waiting = waiting or Waiting(config.cadence_file)
        self._limited = False
        self._said: Pacing | None = None
        self._warm = False

    def __reduce__(self) -> tuple[type[StepReader], tuple[StepSourceConfig]]:
        """Tasks get a reader of their own: what this one has read stays here."""
        return StepReader, (self._config,)

    def initialOffset(self) -> dict[str, Json]:  # noqa: N802
        """Where the savepoint was made, or before the oldest chunks that are left."""
        if self._config.savepoint is not None:
            return Savepoint.read(Path(self._config.savepoint)).offset.to_json()
        return self._admission.initial(self._clock()).to_json()

    def latestOffset(self, start: dict[str, Json], limit: ReadLimit) -> dict[str, Json]:  # noqa: N802
        """What to admit next; `start` itself while there is nothing to do."""
        at_once = self._limited or not self._warm
        if not at_once and self._waiting.operator(self._fresh) is Due.LATER:
            return start
        before = OperatorOffset.from_json(start)
        seal = self._seal()
        if seal is not None:
            # One micro-batch that hands the states over, and none after it.
            if before.sealed == seal.id:
                return start
            return before.again(seal.id, settled=seal.settles).to_json()
        admitted = self._admission.next(before, self._clock(), self._facts())
        if admitted is None:
            self._warm = True  # drained: what comes next is waited for
            return start
        self._tell(admitted)
        self._limited = admitted.decision.limited
        if admitted.offset is not before:
            self._waiting.began()
            self._warm = True
            return admitted.offset.to_json()
        if self._warm:
            return start
        # Run an empty micro-batch while idle: the first one of a run is slow, since Spark starts Python
        # processes and windows are read from the log.
        self._warm = True
        return before.again().to_json()

    def partitions(self, start: dict[str, Json], end: dict[str, Json]) -> Sequence[InputPartition]:
        """One task that emits references to what lies between two offsets."""
        if self._config.read_file is not None:
            inputs = OperatorOffset.from_json(end).at.inputs.items()
            following = {name: (one.position.commit, one.position.chunk + 1) for name, one in inputs}
            told = ReadUpTo(offset=end, following=following)
            told.write(Path(self._config.read_file), durable=False)
        if start == end:
            return []
        self._warm = True
        step = self._admission.step(OperatorOffset.from_json(start), OperatorOffset.from_json(end))
        return [Reference(step.to_text())]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """One row per shard."""
        assert isinstance(partition, Reference)
        keys = self._config.state_keys
        yield pa.RecordBatch.from_pydict(
            {
                "slot": pa.array(keys, pa.int32()),
                "shard": pa.array(range(len(keys)), pa.int32()),
                "step": pa.array([partition.step] * len(keys), pa.string()),
            }
        )

    def _fresh(self) -> list[bool]:
        """Of which inputs there is something that has not been looked at; of all, if a savepoint is due."""
        if self._seal() is not None:
            return [True] * len(self._logs)
        return [log.grown() for log in self._logs]

    def _seal(self) -> Seal | None:
        """What the driver asks for."""
        return None if self._config.seal_file is None else Seal.read(Path(self._config.seal_file))

    def _facts(self) -> Facts:
        """What the driver and the sinks have told."""
        config = self._config
        held, fed = config.held_files.items(), config.fed.items()
        waiting = {name for name, files in held if any(read_buffered(Path(file)) for file in files)}
        waiting |= {name for name, one in fed if one.has_more(config.root)}
        return Facts(
            Path(config.drain_file).exists(),
            0 if config.buffered_file is None else read_buffered(Path(config.buffered_file)),
            tuple(sorted(waiting)),
        )

    def _tell(self, admitted: Admitted) -> None:
        """Write down what the inputs are doing when that has changed, micro-batch or not."""
        pause, silence = admitted.decision.pause, admitted.decision.silence
        why = [what.describe() for what in (pause, silence) if what is not None]
        if admitted.full.steps:
            why.append("buffers are full: max_buffered_rows")
        pacing = Pacing(
            inputs={name: one.status.value for name, one in admitted.decision.inputs.items()},
            paused=None if pause is None else pause.input,
            why="; ".join(why) or None,
            silent=None if silence is None else silence.input,
            silent_since=None if silence is None else silence.since / SECOND,
        )
        if pacing != self._said:
            pacing.write(Path(self._config.status_file))
            self._said = pacing
