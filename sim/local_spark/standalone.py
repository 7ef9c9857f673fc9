"""Spark's standalone master and workers, started without the scripts that pip leaves out."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from penstock.errors import MissingToolError, installing
from penstock.host.rows.files import write_text

#: Address of the master and its clients. The secret keeps other users of the machine out.
HOST = "127.0.0.1"

#: Most workers, since each has an address of its own.
MOST_WORKERS = 250

#: Default of the Spark resource whose addresses are the devices of a worker.
RESOURCE = "fpga"

_MASTER = "org.apache.spark.deploy.master.Master"
_WORKER = "org.apache.spark.deploy.worker.Worker"

#: Configuration of the daemons' logs, whatever is in the caller's SPARK_CONF_DIR.
_LOGGING = """\
rootLogger.level = info
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n
"""


def spark_class() -> Path:
    """Spark's script that runs a Java class.

    Raises
    ------
    MissingToolError
    """
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise MissingToolError(f"a cluster needs Spark; {installing('spark,java')}")
    return Path(spec.origin).parent / "bin" / "spark-class"


@dataclass(frozen=True)
class Settings:
    """Folder with the settings of the daemons and of their clients.

    Parameters
    ----------
    folder : Path
        Made anew. It has the secret, so only its owner may read it.
    """

    folder: Path

    @property
    def client(self) -> Path:
        """Value of ``SPARK_CONF_DIR`` for programs that use the cluster."""
        return self.folder / "client"

    def write(self) -> None:
        """Draw a secret, and write the master's settings."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.folder.chmod(0o700)
        self.client.mkdir(exist_ok=True)
        write_text(self.folder / "log4j2.properties", _LOGGING)
        shared = {
            "spark.authenticate": "true",
            "spark.authenticate.secret": secrets.token_hex(32),
            # Without it the secret is used through SASL's outdated DIGEST-MD5.
            "spark.network.crypto.enabled": "true",
        }
        self._write("master", shared)

    def _write(self, name: str, values: Mapping[str, str]) -> Path:
        path = self.folder / f"{name}.conf"
        write_text(path, "".join(f"{key} {value}\n" for key, value in values.items()))
        return path

    def _shared(self) -> dict[str, str]:
        lines = (self.folder / "master.conf").read_text(encoding="utf-8").splitlines()
        return dict(line.split(" ", 1) for line in lines)

    def write_worker(self, number: int, devices: Sequence[str]) -> Path:
        """Write the settings of a worker with these devices."""
        values = self._shared()
        if devices:
            named = {"componentName": "spark.worker", "resourceName": RESOURCE}
            file = self.folder / f"worker-{number}.json"
            write_text(file, json.dumps([{"id": named, "addresses": list(devices)}]))
            values[f"spark.worker.resource.{RESOURCE}.amount"] = str(len(devices))
            values["spark.worker.resourcesFile"] = str(file)
        return self._write(f"worker-{number}", values)

    def write_client(self, master: str) -> None:
        """Write the default settings of programs that use the cluster."""
        values = {
            "spark.master": master,
            "spark.driver.host": HOST,
            "spark.driver.bindAddress": HOST,
            **self._shared(),
        }
        self._write("client/spark-defaults", values)

    def env(self, scratch: Path, host: str = HOST) -> dict[str, str]:
        """Environment of a daemon, which listens on an address of loopback."""
        logging = self.folder / "log4j2.properties"
        return {
            "SPARK_CONF_DIR": str(self.folder),
            "SPARK_DAEMON_MEMORY": "512m",
            "SPARK_DAEMON_JAVA_OPTS": f"-Dlog4j2.configurationFile={logging}",
            "SPARK_LOCAL_IP": host,
            "SPARK_LOCAL_DIRS": str(scratch),
        }


def master_command(settings: Settings, port: int, web_port: int) -> list[str]:
    """The master's command line; port 0 takes a free one."""
    return [
        str(spark_class()),
        _MASTER,
        *("--host", HOST, "--port", str(port), "--webui-port", str(web_port)),
        *("--properties-file", str(settings.folder / "master.conf")),
    ]


def worker_host(number: int) -> str:
    """Loopback address of a worker, numbered from 1; to Spark each is a host."""
    return f"127.0.0.{number}"


def worker_command(
    number: int, conf: Path, master: str, work: Path, *, cores: int, memory_mib: int
) -> list[str]:
    """A worker's command line."""
    return [
        str(spark_class()),
        _WORKER,
        *("--host", worker_host(number), "--port", "0", "--webui-port", "0"),
        *("--cores", str(cores), "--memory", f"{memory_mib}m", "--work-dir", str(work)),
        *("--properties-file", str(conf)),
        master,
    ]
