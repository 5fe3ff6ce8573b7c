"""Drivers in pods: a bare pod for each start, named after it, that nobody else makes or replaces.

Whatever cannot be asked of the API server is a `RunError`: then nothing is decided, and nothing is changed. A
start that could not be made is made by a later turn. A pod counts as there until the API server has it no
more, or says that its processes have ended: drivers of a node that cannot be reached may run, and stay.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection

from braid.core.errors import BraidError
from braid.home.service import Driver, Job, PoolProcess, Resources, ServiceHome
from braid.service.backends.pod_api import Pod, PodApi
from braid.service.backends.pods import GRACE_SECONDS, Where, driver_pod, label_of, pool_pod
from braid.service.decide.backoff import LIMITS
from braid.service.resources import most

_KNOWN_SECONDS = 2.0
"""How long a list of pods is good enough."""
_AT_ONCE = 1
"""Seconds of a pod that is killed. With 0, it would be forgotten before anybody knows that it has ended."""
_LATE_SECONDS = 600.0
"""How long a pod may come that was asked for, and of which nobody knows whether it has been made."""
_PAUSE_SECONDS = 10.0
"""Between two pods of a pool."""
_IDLE_SECONDS = 60.0
"""How long a pool stays that nobody needs."""


class Pods:
    """Starts drivers in pods.

    Parameters
    ----------
    home
        The service's folder.
    api
        Where pods are.
    where
        How they are made.
    clock
        In seconds since the epoch.
    """

    def __init__(
        self, home: ServiceHome, api: PodApi, where: Where, clock: Callable[[], float] = time.time
    ) -> None:
        self._home = home
        self._api = api
        self._where = where
        self._clock = clock
        self._known: list[Pod] = []
        self._looked = -_KNOWN_SECONDS
        self._failed: BraidError | None = None
        self._asked: set[str] = set()
        """Jobs whose pods are yet to be made."""
        self._cleared: dict[str, float] = {}
        """Jobs that are over, and since when: a pod of theirs that comes late is not wanted."""
        self._idle: dict[str, float] = {}
        self._made: dict[str, float] = {}
        """Pools, and when their pods were made."""

    def start(self, application: str, job: Job) -> None:
        """Make a pod, as soon as there is none of another start; that of a pool takes the job by itself."""
        if job.resources.pool is None:
            self._asked.add(job.id)
            self._make(application, job)

    def waits_for(self, application: str, job: Job) -> str | None:
        """What a driver that has said nothing yet waits for; a pod that could not be made is made."""
        if job.id in self._asked:
            others = self._make(application, job)
            if others:
                return f"waiting for the end of {', '.join(pod.name for pod in others)}"
        pool = job.resources.pool
        mine = [
            pod for pod in self._look() if (pod.job == job.id if pool is None else self._is_of(pod, pool))
        ]
        if not mine or mine[0].over:
            return "waiting for the pod of the pool" if pool is not None else None
        return f"pod {mine[0].name}: {mine[0].says or mine[0].phase}"

    def is_alive(self, driver: Driver) -> bool:
        """Whether the pod of a driver is there, and has not ended."""
        if driver.place is None:
            # It was started before drivers were in pods, on a machine that only knows itself.
            return self._clock() - driver.beat < LIMITS.dead
        return self._of(driver) is not None

    def stop(self, application: str, job: Job, driver: Driver) -> None:
        """Have the pod end, which sends SIGTERM to the driver. A pool is told of the job."""
        if job.resources.pool is not None:
            self._home.driver(application).stop_file.write_text(job.id)
        else:
            self._delete(driver, GRACE_SECONDS)

    def kill(self, application: str, job: Job, driver: Driver) -> None:
        """Have the pod end at once; that of a pool has all of its applications."""
        self._delete(driver, _AT_ONCE)

    def clear(self, application: str, job: Job, driver: Driver | None) -> None:
        """Have the pod of a job end that is over; one of a pool goes on."""
        if job.resources.pool is None:
            self._asked.discard(job.id)
            now = self._clock()
            self._cleared = {one: at for one, at in self._cleared.items() if now - at < _LATE_SECONDS}
            self._cleared[job.id] = now
            self._sweep(self._look(fresh=True))

    def keep_pools(self, wanted: Collection[str]) -> None:
        """Make the pods of pools that are needed and not there; end those that nobody needs for a while."""
        pods = self._look()
        self._sweep(pods)
        now, there = self._clock(), set()
        for name in {*self._home.pools(), *wanted}:
            for pod in pods:
                if self._is_of(pod, name):
                    there.add(name)
                    self._keep_pool(name, pod, name in wanted, now)
        for name in set(wanted) - there:
            if now - self._made.get(name, now - _PAUSE_SECONDS) >= _PAUSE_SECONDS:
                self._api.create(pool_pod(name, self._asked_by(name), self._where))
                self._made[name] = now
                self._looked = -_KNOWN_SECONDS

    def stop_pools(self) -> None:
        """Have the pods of all pools end."""
        for pod in self._look(fresh=True):
            if pod.pool is not None and not pod.deleting:
                self._api.delete(pod, GRACE_SECONDS)

    def _keep_pool(self, name: str, pod: Pod, wanted: bool, now: float) -> None:
        process = PoolProcess.read(self._home.pool(name).process_file)
        silent = process is not None and process.place == pod.uid and now - process.beat > LIMITS.dead
        if pod.deleting:
            return
        if pod.over or silent:
            self._api.delete(pod, _AT_ONCE)
        elif wanted:
            self._idle.pop(name, None)
        elif now - self._idle.setdefault(name, now) > _IDLE_SECONDS:
            self._api.delete(pod, GRACE_SECONDS)

    def _asked_by(self, pool: str) -> Resources:
        """The most that any application of a pool asks for."""
        jobs = [Job.read(self._home.driver(name).job_file) for name in self._home.drivers()]
        return most([job.resources for job in jobs if job is not None and job.resources.pool == pool])

    def _make(self, application: str, job: Job) -> list[Pod]:
        """Make the pod of a job, unless there are others of its application; they are to end first."""
        pods = [pod for pod in self._look(fresh=True) if pod.application == label_of(application)]
        others = [pod for pod in pods if pod.job != job.id]
        for pod in others:
            if not pod.deleting:
                self._api.delete(pod, GRACE_SECONDS)
        if not others:
            if not pods:
                self._api.create(driver_pod(application, job, self._where))
                self._looked = -_KNOWN_SECONDS
            self._asked.discard(job.id)
        return others

    def _delete(self, driver: Driver, seconds: int) -> None:
        pod = self._of(driver)
        if pod is not None:
            self._api.delete(pod, seconds)
            self._looked = -_KNOWN_SECONDS

    def _sweep(self, pods: list[Pod]) -> None:
        """Have pods of jobs end that are over."""
        for pod in pods:
            if pod.job in self._cleared and not pod.deleting:
                self._api.delete(pod, GRACE_SECONDS)
                self._looked = -_KNOWN_SECONDS

    def _of(self, driver: Driver) -> Pod | None:
        """The pod of a driver, if it has not ended. A list that is not quite new may not have it yet."""
        for fresh in (False, True):
            for pod in self._look(fresh=fresh):
                if pod.uid == driver.place:
                    return None if pod.over else pod
        return None

    def _is_of(self, pod: Pod, pool: str) -> bool:
        return pod.pool == label_of(pool)

    def _look(self, *, fresh: bool = False) -> list[Pod]:
        """Pods that there are; if the API server does not say, it is not asked again at once."""
        now = self._clock()
        if fresh or now - self._looked >= _KNOWN_SECONDS or now < self._looked:
            if self._failed is not None and now - self._looked < _KNOWN_SECONDS:
                raise self._failed
            self._looked, self._failed = now, None
            try:
                self._known = self._api.list()
            except BraidError as error:
                self._failed = error
                raise
        elif self._failed is not None:
            raise self._failed
        return self._known
