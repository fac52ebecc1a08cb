"""Real servers for tests and for trying: three nodes of OpenSearch and two of SolrCloud, on loopback.

    python tools/servers.py start     # `make servers`: Maven brings them the first time
    python tools/servers.py stop      # `make servers-stop`: and what they held is deleted

Each node is a process of its own. Their jars and data lie in a cache outside of the tree, so that every
clone uses the same servers. They are for nothing but tests: there is no password; OpenSearch cannot see who
runs it, as it refuses root; and Solr's first node is also the ZooKeeper of both. They need Linux.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from anserini_bridge.jvm import find_java
from downloads import verify_checksums
from lexlip.errors import LexLIPError

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lexlip" / "servers"
SUMS = Path(__file__).with_name("servers.sha256")
HOST = "127.0.0.1"
HEAP = "-Xmx512m"
NATIVE = "--enable-native-access=ALL-UNNAMED"  # or Java 25 warns of Lucene
PATIENCE = 300  # seconds in which a node answers; on a busy machine Java takes long to start

OPENSEARCH = "3.9.0"
SOLR = "9.10.1"
JETTY = "10.0.26"  # that of this Solr
_ARTIFACTS = {
    "opensearch": [
        f"org.opensearch:opensearch:{OPENSEARCH}",
        f"org.opensearch:opensearch-agent-bootstrap:{OPENSEARCH}",
        f"org.opensearch:opensearch-plugin-classloader:{OPENSEARCH}",
        f"org.opensearch.plugin:mapper-extras-client:{OPENSEARCH}",
        f"org.opensearch.plugin:reindex-client:{OPENSEARCH}",
        f"org.opensearch.plugin:transport-netty4-client:{OPENSEARCH}",
        "org.apache.logging.log4j:log4j-core:2.25.5",
    ],
    "solr": [
        f"org.apache.solr:solr-core:{SOLR}",
        f"org.eclipse.jetty:jetty-server:{JETTY}",
        f"org.eclipse.jetty:jetty-servlet:{JETTY}",
        f"org.eclipse.jetty:jetty-xml:{JETTY}",
        f"org.eclipse.jetty.http2:http2-server:{JETTY}",
    ],
}
"""What Maven brings for a server, with all that these need."""

_MODULES = {
    "mapper-extras": "org.opensearch.index.mapper.MapperExtrasModulePlugin",
    "reindex": "org.opensearch.index.reindex.ReindexModulePlugin",
    "transport-netty4": "org.opensearch.transport.Netty4ModulePlugin",
}
"""Modules of OpenSearch, which it loads from folders of their own, and their classes."""

_COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
_POM = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
    <modelVersion>4.0.0</modelVersion>
    <groupId>lexlip</groupId><artifactId>servers</artifactId><version>1</version>
    <dependencies>{}</dependencies>
</project>
"""
_DEPENDENCY = "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency>"
_JETTY = """\
<?xml version="1.0"?>
<!DOCTYPE Configure PUBLIC "-//Jetty//Configure//EN" "https://www.eclipse.org/jetty/configure_10_0.dtd">
<Configure id="Server" class="org.eclipse.jetty.server.Server">
  <Call name="addConnector"><Arg>
    <New class="org.eclipse.jetty.server.ServerConnector">
      <Arg><Ref refid="Server"/></Arg>
      <Arg><Array type="org.eclipse.jetty.server.ConnectionFactory">
        <Item><New class="org.eclipse.jetty.server.HttpConnectionFactory">
          <Arg><New id="http" class="org.eclipse.jetty.server.HttpConfiguration"/></Arg>
        </New></Item>
        <Item><New class="org.eclipse.jetty.http2.server.HTTP2CServerConnectionFactory">
          <Arg><Ref refid="http"/></Arg>
        </New></Item>
      </Array></Arg>
      <Set name="host"><SystemProperty name="jetty.host"/></Set>
      <Set name="port"><SystemProperty name="jetty.port"/></Set>
    </New>
  </Arg></Call>
  <Set name="handler">
    <New class="org.eclipse.jetty.servlet.ServletContextHandler">
      <Set name="contextPath">/solr</Set>
      <Call name="addEventListener"><Arg>
        <New class="org.apache.solr.servlet.CoreContainerProvider"/>
      </Arg></Call>
      <Call name="addFilter">
        <Arg>org.apache.solr.servlet.SolrDispatchFilter</Arg><Arg>/*</Arg>
        <Arg><Call class="java.util.EnumSet" name="of">
          <Arg><Get class="javax.servlet.DispatcherType" name="REQUEST"/></Arg>
        </Call></Arg>
      </Call>
      <Call name="addServlet"><Arg>org.eclipse.jetty.servlet.DefaultServlet</Arg><Arg>/</Arg></Call>
    </New>
  </Set>
</Configure>
"""
"""The web server around Solr, as its own release has it: HTTP/1.1 for clients, HTTP/2 between nodes."""

_SOLR = """\
<solr>
  <solrcloud>
    <str name="host">${jetty.host}</str>
    <int name="hostPort">${jetty.port}</int>
    <str name="hostContext">solr</str>
  </solrcloud>
</solr>
"""
_ZOOKEEPER = f"tickTime=2000\nclientPortAddress={HOST}\nadmin.enableServer=false\n"
_LOG = """\
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{ISO8601} %-5p %c{1} %m%n
rootLogger.level = warn
rootLogger.appenderRef.console.ref = console
"""


@dataclass(frozen=True)
class Node:
    """A process of a server: its name, the kind of server, and its port of HTTP."""

    name: str
    kind: str
    port: int

    @property
    def folder(self) -> Path:
        """What it is told, its log and its data."""
        return CACHE / "run" / self.name

    @property
    def address(self) -> str:
        """Where it answers."""
        return f"http://{HOST}:{self.port}"

    def pid(self) -> int | None:
        """Return the id of its process, or None if it does not run."""
        try:
            pid = int((self.folder / "pid").read_text())
            running = str(self.folder) in Path(f"/proc/{pid}/cmdline").read_text()
        except (OSError, ValueError):
            return None
        return pid if running else None

    def start(self) -> None:
        """Start its process, with the data that it has; one that runs is left alone."""
        if self.pid() is not None:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        command = [str(find_java().path / "bin" / "java"), HEAP, NATIVE, *_TOLD[self.kind](self)]
        # by a shell that ends at once, so that it is no child of this process
        run = '"$@" >>log.txt 2>&1 </dev/null & echo $! >pid'
        subprocess.run(["sh", "-c", run, "sh", *command], cwd=self.folder, check=True, start_new_session=True)

    def end(self, how: signal.Signals = signal.SIGTERM) -> None:
        """End its process, and wait until it is gone; its data stay."""
        pid = self.pid()
        if pid is None:
            return
        os.kill(pid, how)
        deadline = time.monotonic() + PATIENCE
        while self.pid() is not None:
            if time.monotonic() > deadline:
                raise SystemExit(f"{self.name}, the process {pid}, does not end")
            time.sleep(0.1)


NODES = [
    *(Node(f"opensearch-{number}", "opensearch", 19200 + number) for number in (1, 2, 3)),
    *(Node(f"solr-{number}", "solr", 18980 + number) for number in (1, 2)),
]


def peers(kind: str) -> list[Node]:
    """Return the nodes of a kind of server."""
    return [node for node in NODES if node.kind == kind]


def jars(kind: str) -> Path:
    """Return the folder with a server's jars, which Maven brings the first time.

    Raises:
        SystemExit: Maven is missing, or does not bring them.
        DataError: one has another checksum than `SUMS`, or none there.
    """
    artifacts = _ARTIFACTS[kind]
    folder = CACHE / f"{kind}-{artifacts[0].rpartition(':')[2]}"
    if not folder.is_dir():
        if shutil.which("mvn") is None:
            raise SystemExit("Maven brings the servers: install it (on Debian: sudo apt-get install maven)")
        print(f"bringing {folder.name}", flush=True)
        CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE) as temporary:
            pom = Path(temporary) / "pom.xml"
            pom.write_text(_POM.format("".join(_DEPENDENCY.format(*one.split(":")) for one in artifacts)))
            new = Path(temporary) / "jars"
            command = ["mvn", "-q", "-B", "-Dstyle.color=never", "-f", str(pom), _COPY]
            command += [f"-DoutputDirectory={new}", "-DincludeScope=runtime"]
            if subprocess.run(command, stdout=sys.stderr).returncode:
                raise SystemExit(f"Maven does not bring {folder.name}: its reason is above")
            new.rename(folder)
    verify_checksums(sorted(folder.iterdir()), SUMS)
    return folder


def _opensearch(node: Node) -> list[str]:
    """Write what a node of OpenSearch is told, and return the arguments of Java."""
    lies = jars("opensearch")
    modules = []
    for name, kind in _MODULES.items():
        folder = node.folder / "modules" / name
        folder.mkdir(parents=True, exist_ok=True)
        (jar,) = lies.glob(f"{name}-client-*.jar")
        modules.append(jar)
        shutil.copy(jar, folder)
        told = {"name": name, "description": name, "version": OPENSEARCH, "classname": kind}
        told |= {"opensearch.version": OPENSEARCH, "java.version": "21"}
        text = "".join(f"{key}={value}\n" for key, value in told.items())
        (folder / "plugin-descriptor.properties").write_text(text)
    settings = {
        "cluster.name": "lexlip",
        "node.name": node.name,
        "network.host": HOST,
        "http.port": node.port,
        "transport.port": node.port + 100,
        "discovery.seed_hosts": [f"{HOST}:{one.port + 100}" for one in peers(node.kind)],
        "cluster.initial_cluster_manager_nodes": [one.name for one in peers(node.kind)],
        "cluster.routing.allocation.disk.threshold_enabled": False,  # a full disk of a developer is no matter
        "path.repo": str(CACHE / "run" / "snapshots"),
    }
    config = node.folder / "config"
    config.mkdir(exist_ok=True)
    text = "".join(f"{key}: {json.dumps(value)}\n" for key, value in settings.items())
    (config / "opensearch.yml").write_text(text)
    (config / "log4j2.properties").write_text(_LOG)
    paths = [str(jar) for jar in sorted(lies.iterdir()) if jar not in modules]
    return [
        *("-Djna.nosys=true", "-Djna.nounpack=true", "-Djna.boot.library.path=/"),  # no native access
        f"-Dopensearch.path.home={node.folder}",
        f"-Dopensearch.path.conf={config}",
        *("-cp", os.pathsep.join(paths)),
        "org.opensearch.bootstrap.OpenSearch",
    ]


def _solr(node: Node) -> list[str]:
    """Write what a node of Solr is told, and return the arguments of Java."""
    for name, text in {"solr.xml": _SOLR, "jetty.xml": _JETTY, "zoo.cfg": _ZOOKEEPER}.items():
        (node.folder / name).write_text(text)
    (node.folder / "log4j2.properties").write_text(_LOG)
    first = peers("solr")[0]
    return [
        f"-Djetty.host={HOST}",
        f"-Djetty.port={node.port}",
        f"-Dlog4j2.configurationFile={node.folder / 'log4j2.properties'}",
        f"-Dsolr.solr.home={node.folder}",
        f"-Dsolr.log.dir={node.folder}",
        "-DzkRun" if node == first else f"-DzkHost={HOST}:{first.port + 1000}",
        *("-cp", str(jars("solr") / "*")),
        "org.eclipse.jetty.xml.XmlConfiguration",
        str(node.folder / "jetty.xml"),
    ]


_TOLD = {"opensearch": _opensearch, "solr": _solr}
_HEALTH = {
    "opensearch": "/_cluster/health?wait_for_status=yellow&timeout=5s",
    "solr": "/solr/admin/collections?action=CLUSTERSTATUS",
}


def ready(node: Node) -> bool:
    """Return whether a node answers as a member of its whole cluster."""
    try:
        with urllib.request.urlopen(node.address + _HEALTH[node.kind], timeout=10) as response:
            said = json.load(response)
        members = said["number_of_nodes"] if node.kind == "opensearch" else len(said["cluster"]["live_nodes"])
    except (OSError, ValueError, KeyError):
        return False
    return bool(members == len(peers(node.kind)))


def wait(nodes: list[Node]) -> None:
    """Wait until all nodes answer; SystemExit: one does not run, or not within `PATIENCE`."""
    deadline = time.monotonic() + PATIENCE
    for node in nodes:
        while not ready(node):
            if node.pid() is None or time.monotonic() > deadline:
                raise SystemExit(f"{node.name} does not answer: {node.folder / 'log.txt'} says why")
            time.sleep(0.5)


def start() -> None:
    """Start all nodes that do not run, and print their addresses."""
    for node in NODES:
        node.start()
    wait(NODES)
    for node in NODES:
        print(f"{node.name} {node.address}")


def stop() -> None:
    """End all nodes, and delete what they held."""
    for node in NODES:
        node.end()
    shutil.rmtree(CACHE / "run", ignore_errors=True)


def main() -> None:
    """Start or stop the servers."""
    parser = argparse.ArgumentParser(prog="python tools/servers.py", description=__doc__)
    parser.add_argument("what", choices=["start", "stop"])
    try:
        {"start": start, "stop": stop}[parser.parse_args().what]()
    except LexLIPError as error:
        raise SystemExit(str(error)) from error


if __name__ == "__main__":
    main()
