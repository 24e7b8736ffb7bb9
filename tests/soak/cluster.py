"""A cluster of agents on this machine, in one folder: starts, kills and inspects them. The folder is a history for
tests/tool/check_history.py."""

import http.client
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import time

WAIT_S = 600  # for what only has to occur, on a busy machine
LOOK_S, LOOK_MOST_S = 0.01, 0.3  # first often, then seldom: a look costs a connection

RUNNER = """#!/bin/sh
# Loads the fail point of this agent's next runner, if there is one.
[ ! -r "$0.plan" ] || . "$0.plan"
exec '{build}/job_runner' "$@"
"""


class Hung(Exception):
    """Something has not occurred within WAIT_S."""


def within(what, condition, seconds=WAIT_S):
    """Waits until condition() is true, and returns that value."""
    end = time.monotonic() + seconds
    pause = LOOK_S
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise Hung(f"{what} did not occur within {seconds} s")
        time.sleep(pause)
        pause = min(1.2 * pause, LOOK_MOST_S)


def free_port():
    """A port below those that the kernel hands out."""
    with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as f:
        first = int(f.read().split()[0])
    while True:
        port = random.SystemRandom().randrange(max(first // 2, 1024), first)
        with socket.socket() as s:
            try:
                s.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue


def folders():
    """[(pid, working folder)] of all processes that can be looked at; a zombie has none."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                found.append((int(name), os.readlink(f"/proc/{name}/cwd")))
            except OSError:
                continue
    return found


def command(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as f:
            return f.read().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return ""


def links(pid):
    """Where the descriptors of a process lead."""
    found = []
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            found.append(os.readlink(f"/proc/{pid}/fd/{fd}"))
        except OSError:
            continue
    return found


class Agent:
    """One agent. `name` is that of its folder in the history; it keeps its port, also when it is started again."""

    def __init__(self, cluster, name):
        self.cluster, self.name = cluster, name
        self.home = os.path.join(cluster.folder, name)
        self.bin = os.path.join(cluster.folder, "bin", name)
        self.port = free_port()
        self.options = ()
        self.process = None
        os.makedirs(self.bin)
        # An agent starts the job_runner beside it: this one can be given a fail point.
        shutil.copy(os.path.join(cluster.build, "agent"), self.bin)
        for part in ("codecs", "include", "models"):
            os.symlink(os.path.join(cluster.build, part), os.path.join(self.bin, part))
        runner = os.path.join(self.bin, "job_runner")
        with open(runner, "w", encoding="utf-8") as f:
            f.write(RUNNER.format(build=cluster.build))
        os.chmod(runner, 0o755)

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"

    def spawn(self, point=None, log=None):
        """Starts it, to be killed at `point` if given, or with its points logged."""
        command = [os.path.join(self.bin, "agent"), "--port", str(self.port), "--dir", self.home, *self.options]
        with open(self.home + ".log", "ab") as output:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=self.cluster.environment(point, log)
            )

    def start(self, point=None, log=None):
        self.spawn(point, log)
        within(f"start of {self.name}", lambda: self.answers() or self.has_ended())
        if self.has_ended() and not point:
            raise Hung(f"{self.name} ended with status {self.process.returncode} when it was started")

    def has_ended(self):
        return self.process.poll() is not None

    def answers(self):
        try:
            return self.request("GET", "/healthz")[0] == 200
        except OSError:
            return False

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        self.process.send_signal(signal.SIGCONT)
        self.process.terminate()
        try:
            self.process.wait(WAIT_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise Hung(f"{self.name} did not end by SIGTERM within {WAIT_S} s") from None

    def set_runner_point(self, environment):
        """Loads the fail point of this environment into its next runners; none if it is empty."""
        plan = os.path.join(self.bin, "job_runner.plan")
        with open(plan + ".new", "w", encoding="utf-8") as f:
            f.writelines(f"export {k}='{v}'\n" for k, v in environment.items())
        os.rename(plan + ".new", plan)

    def token(self):
        with open(os.path.join(self.home, "token"), encoding="ascii") as f:
            return f.read().strip()

    def connect(self, timeout=WAIT_S):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)

    def headers(self):
        return {"Authorization": "Bearer " + self.token()}

    def request(self, method, path, timeout=WAIT_S):
        """(status, body). OSError: it does not answer."""
        connection = self.connect(timeout)
        try:
            connection.request(method, path, headers={} if path == "/healthz" else self.headers())
            answer = connection.getresponse()
            return answer.status, answer.read()
        except http.client.HTTPException as e:
            raise OSError(str(e)) from e
        finally:
            connection.close()

    def get(self, path, timeout=WAIT_S):
        return json.loads(self.request("GET", path, timeout)[1])

    def jobs(self):
        """Newest first."""
        return self.get("/v1/jobs")["jobs"]

    def runners(self):
        """Pids of the processes in its jobs' folders."""
        return sorted(pid for pid, at in folders() if at.startswith(self.home + "/jobs/"))

    def look(self):
        """What the history checker wants to know of an agent without a job."""
        pid = self.process.pid
        fds = links(pid)
        with open(f"/proc/{pid}/status", encoding="utf-8") as f:
            status = dict(line.split(":", 1) for line in f)
        return {
            "seen": "idle",
            "agent": self.name,
            "pid": pid,
            "fds": len(fds),
            "threads": int(status["Threads"]),
            "rss_bytes": int(status["VmRSS"].split()[0]) << 10,
            "sockets": sum(link.startswith("socket:") for link in fds),
            "runners": self.runners(),
        }


class Cluster:
    """Agents agent0, agent1, ...; the first `n_workers` are workers, the others servers."""

    def __init__(self, build, folder, n_workers, n_servers):
        self.build = os.path.abspath(build)
        self.folder = os.path.abspath(folder)
        self.fail_point = os.path.join(self.build, "tests", "soak", "fail_point.so")
        os.makedirs(os.path.join(self.folder, "tmp"))
        os.makedirs(os.path.join(self.folder, "bin"))
        self.agents = [Agent(self, f"agent{n}") for n in range(n_workers + n_servers)]
        workers, servers = self.agents[:n_workers], self.agents[n_workers:]
        self.write_list("workers.json", {"Worker": [a.address for a in workers]})
        self.write_list("servers.json", {"PS": [a.address for a in servers], "Worker": [a.address for a in workers]})

    def write_list(self, name, document):
        with open(os.path.join(self.folder, name), "w", encoding="utf-8") as f:
            json.dump(document, f)

    def environment(self, point=None, log=None):
        kept = {k: v for k, v in os.environ.items() if not k.startswith("PSGD_") and k != "NO_COLOR"}
        kept.update(TMPDIR=os.path.join(self.folder, "tmp"))
        kept.update({f"XDG_{k}_HOME": os.path.join(self.folder, k.lower()) for k in ("STATE", "CACHE")})
        return {**kept, **self.preload(point, log)}

    def preload(self, point=None, log=None):
        """The variables that load a fail point, or log all of them; none without either."""
        plan = {"PSGD_FAIL_POINT": point, "PSGD_FAIL_LOG": log}
        plan = {k: v for k, v in plan.items() if v}
        return {"LD_PRELOAD": self.fail_point, **plan} if plan else {}

    def can_preload(self):
        """A sanitizer's build must load its own library first."""
        return os.path.basename(self.build) not in ("asan", "tsan") and os.path.exists(self.fail_point)

    def submit(self, *arguments, point=None, log=None, output=None):
        """Starts job_submit in the cluster's folder."""
        return subprocess.Popen(
            [os.path.join(self.build, "job_submit"), *arguments],
            cwd=self.folder,
            env=self.environment(point, log),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL if output is None else output,
            stderr=subprocess.STDOUT if output is None else output,
        )

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    def start(self):
        for a in self.agents:
            a.spawn()
        for a in self.agents:
            within(f"start of {a.name}", lambda a=a: a.answers() or a.has_ended())

    def stop(self):
        """Stops all agents; returns what the history checker wants to know of the end."""
        ports = [a.port for a in self.agents]
        for a in self.agents:
            if a.process and not a.has_ended():
                a.stop()
        mine = {}
        try:
            within("end of all processes", lambda: not self.left(), 5)
        except Hung:
            mine = self.left()
        still = []
        for port in ports:
            with socket.socket() as s:
                if s.connect_ex(("127.0.0.1", port)) == 0:
                    still.append(port)
        for pid in mine:
            os.kill(pid, signal.SIGKILL)
        return {"seen": "end", "processes": [{"pid": p, "command": c} for p, c in mine.items()], "listening": still}

    def left(self):
        """{pid: command line} of the processes that work in the cluster's folder or run from it."""
        here = self.folder + "/"
        found = {pid: command(pid) for pid, at in folders() if pid != os.getpid()}
        mine = {pid for pid, at in folders() if (at + "/").startswith(here)}
        return {pid: text for pid, text in found.items() if pid in mine or text.startswith(here)}


class PreloadedCluster(Cluster):
    """`point` is the environment that loads another library than that of fail points."""

    def preload(self, point=None, log=None):
        return dict(point) if point else {}
