"""Kafka Streams' windowed join, with a broker of its own; topics are filled before the clock starts."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from pathlib import Path

from common import Job, finish, job

PROPERTIES = """
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{broker},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{broker}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={work}/broker
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
log.message.timestamp.before.max.ms=9223372036854775807
log.message.timestamp.after.max.ms=9223372036854775807
log.retention.ms=-1
"""
BROKER_SECONDS = 60


def free_port() -> int:
    """A port that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def start_broker(given: Job, java: str, classpath: str) -> str:
    """Format a folder, and start a broker on it in a process of its own; its address."""
    broker, controller = free_port(), free_port()
    file = Path(given.work) / "server.properties"
    file.write_text(PROPERTIES.format(broker=broker, controller=controller, work=given.work))
    command = [java, "-Xmx512m", "-cp", classpath]
    storage = [
        "kafka.tools.StorageTool",
        "format",
        "--standalone",
        "-t",
        "AAAAAAAAAAAAAAAAAAAAAQ",
        "-c",
        str(file),
    ]
    subprocess.run([*command, *storage], check=True)
    with (Path(given.work) / "broker.log").open("w") as log:
        subprocess.Popen([*command, "kafka.Kafka", str(file)], stdout=log, stderr=log)
    deadline = time.monotonic() + BROKER_SECONDS
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", broker)) == 0:
                return f"127.0.0.1:{broker}"
        time.sleep(0.2)
    raise SystemExit(f"Error: the broker did not start in {BROKER_SECONDS} s")


def main() -> None:
    """Run the join as the job says."""
    given = job()
    java, classpath = os.environ["BENCH_JAVA"], os.environ["BENCH_CLASSPATH"]
    broker = start_broker(given, java, classpath)
    query = given.query
    folders = [f"{folder}-csv" for folder in (given.left, given.right, given.warm_left, given.warm_right)]
    grace = max(query.left_delay, query.right_delay)
    numbers = [str(number) for number in (query.lower, query.upper, grace)]
    command = [java, f"-Xmx{given.heap}", "-cp", classpath, "bench.StreamsJoin", broker, *folders]
    done = subprocess.run([*command, query.type, *numbers, given.work, given.state], check=False)
    if done.returncode:
        raise SystemExit(f"Error: Kafka Streams ended with code {done.returncode}")
    finish()


main()
