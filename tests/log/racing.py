"""Two writers that race for every commit number."""

from __future__ import annotations

from multiprocessing.sharedctypes import SynchronizedArray
from multiprocessing.synchronize import Barrier

from braid.log import Log, durable


def race(root: str, who: int, rounds: int, barrier: Barrier, won: SynchronizedArray) -> None:
    """Publish as many commits as there are rounds, each at the same moment as the other writer.

    The two wait for each other right before the step that decides, so that every number is fought for.
    """
    link = durable.link

    def link_together(source: str, target: str) -> None:
        barrier.wait()
        link(source, target)

    durable.link = link_together
    category = Log(root).open("c")
    for number in range(rounds):
        won[number] = category.publish(number, [], {"who": who})
