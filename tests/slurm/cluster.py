"""A SLURM of one node on this machine, made of the daemons munged, slurmctld and slurmd.

All that it writes is in one folder. It listens on ports that were free, and runs as the user who
starts it. Its node pretends to have a GPU, four cores and much memory, so that jobs can start.
"""

from __future__ import annotations

import contextlib
import getpass
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

DAEMONS = ("munged", "slurmctld", "slurmd")
COMMANDS = ("sbatch", "scancel", "scontrol", "sinfo", "squeue", "srun")
PATH = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])
PATIENCE = 300  # seconds; a machine may have much else to do

CONFIGURATION = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
SchedulerParameters=batch_sched_delay=0,bf_interval=1,sched_interval=1,sched_min_interval=0
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
GresTypes=gpu
MinJobAge=3600
NodeName={host} NodeAddr=127.0.0.1 CPUs=4 RealMemory=64000 Gres=gpu:1 State=UNKNOWN
PartitionName=main Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""


def missing() -> list[str]:
    """Return the programs of SLURM that are not installed."""
    return [name for name in (*DAEMONS, *COMMANDS) if shutil.which(name, path=PATH) is None]


@dataclass(frozen=True)
class Cluster:
    """A running SLURM.

    Attributes:
        folder: all its files.
    """

    folder: Path

    @property
    def path(self) -> str:
        """A search path on which SLURM's commands speak with this cluster."""
        return os.pathsep.join([str(self.folder / "bin"), PATH])

    @property
    def log(self) -> str:
        """The last lines of what each daemon has said."""
        files = [self.folder / f"{name}.log" for name in DAEMONS]
        return "\n".join(
            "\n".join([f"--- {file.name}", *file.read_text().splitlines()[-40:]])
            for file in files
            if file.exists()
        )

    def ask(self, command: str, *arguments: str) -> str:
        """Return what a command of SLURM prints."""
        done = self._run(command, *arguments)
        assert done.returncode == 0, done.stderr + self.log
        return done.stdout

    def jobs(self, columns: str = "%i") -> list[list[str]]:
        """Return columns of all jobs, ended ones too, in the order of their submission.

        Args:
            columns: squeue's letters.
        """
        said = self.ask("squeue", "--noheader", "--states=all", "--sort=i", f"--format={columns}")
        return [line.split() for line in said.splitlines()]

    def job(self, number: str) -> dict[str, str]:
        """Return all that SLURM knows of a job."""
        said = self.ask("scontrol", "--oneliner", "show", "job", number)
        return dict(word.split("=", 1) for word in said.split() if "=" in word)

    def accepts(self, command: str, *arguments: str) -> bool:
        """Return whether a command of SLURM succeeds."""
        return self._run(command, *arguments).returncode == 0

    def _run(self, command: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.folder / "bin" / command, *arguments], capture_output=True, text=True, check=False
        )

    def wait(self, until: Callable[[], object]) -> None:
        """Wait until something holds."""
        deadline = time.monotonic() + PATIENCE
        while not until():
            assert time.monotonic() < deadline, self.log
            time.sleep(0.1)


@contextlib.contextmanager
def started(folder: Path) -> Iterator[Cluster]:
    """Start a cluster in an empty folder; end it, and all its jobs."""
    cluster = Cluster(folder)
    host = socket.gethostname().partition(".")[0]
    _configure(folder, host)
    munge = {"key-file": "munge.key", "pid-file": "munge.pid", "seed-file": "munge.seed"}
    options = [f"--{name}={folder / file}" for name, file in munge.items()]
    key = folder / "munge.socket"
    with contextlib.ExitStack() as stack:
        run = stack.enter_context
        run(_daemon(cluster, "munged", "--foreground", "--force", f"--socket={key}", *options))
        cluster.wait(key.exists)
        run(_daemon(cluster, "slurmctld", "-D", "-c"))
        run(_daemon(cluster, "slurmd", "-D", "-N", host))
        cluster.wait(lambda: "idle" in _state(cluster))
        stack.callback(_end_jobs, cluster)
        yield cluster


def _configure(folder: Path, host: str) -> None:
    for name in ("state", "spool", "bin"):
        (folder / name).mkdir()
    (folder / "munge.key").touch(mode=0o600)
    (folder / "munge.key").write_bytes(os.urandom(128))
    (folder / "gres.conf").write_text("Name=gpu File=/dev/null\n")
    (folder / "slurm.conf").write_text(
        CONFIGURATION.format(folder=folder, host=host, user=getpass.getuser(), ports=_free_ports())
    )
    # Snakemake's plugin takes SLURM_CONF from the jobs that it starts, so the commands say it.
    for name in COMMANDS:
        command = folder / "bin" / name
        command.write_text(
            f'#!/bin/sh\nSLURM_CONF={folder}/slurm.conf exec {shutil.which(name, path=PATH)} "$@"\n'
        )
        command.chmod(0o755)


def _free_ports() -> list[int]:
    with socket.socket() as one, socket.socket() as other:
        for each in (one, other):
            each.bind(("127.0.0.1", 0))
        return [one.getsockname()[1], other.getsockname()[1]]


@contextlib.contextmanager
def _daemon(cluster: Cluster, name: str, *arguments: str) -> Iterator[None]:
    """Run a daemon in the foreground, with what it says in ``<name>.log``."""
    others = {k: v for k, v in os.environ.items() if not k.startswith(("SLURM", "SBATCH", "SRUN"))}
    with (cluster.folder / f"{name}.log").open("w") as log:
        process = subprocess.Popen(
            [shutil.which(name, path=PATH) or name, *arguments],
            env=others | {"SLURM_CONF": str(cluster.folder / "slurm.conf")},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C ends the tests, and these in their turn
        )
        try:
            yield
        finally:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _state(cluster: Cluster) -> str:
    """Return the state of the node; nothing while the controller does not answer yet."""
    command = [cluster.folder / "bin/sinfo", "--noheader", "--format=%T"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def _end_jobs(cluster: Cluster) -> None:
    cluster.ask("scancel", f"--user={getpass.getuser()}")
    cluster.wait(lambda: not cluster.ask("squeue", "--noheader"))
