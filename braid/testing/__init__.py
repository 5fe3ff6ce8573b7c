"""Tools for testing applications and window settings offline, without a running service."""

from braid.testing.accuracy import Accuracy, measure
from braid.testing.batch import batch_matched
from braid.testing.outcome import Simulation, Timeline
from braid.testing.simulation import simulate
from braid.testing.streams import ClientLike, Outage, ServerLike, Stream
from braid.testing.workloads import search_sessions

__all__ = [
    "Accuracy",
    "ClientLike",
    "Outage",
    "ServerLike",
    "Simulation",
    "Stream",
    "Timeline",
    "batch_matched",
    "measure",
    "search_sessions",
    "simulate",
]
