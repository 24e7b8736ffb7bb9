"""Jobs, and the folders of their results."""
from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, Union

from .errors import Error, Incomplete, Invalid, JobFailed, Timeout, UsageError, error_of
from .models import load_model, load_preprocessing, to_torch
from .program import PathLike, Value, call, plain, run
from .records import read

ENDED = ("succeeded", "failed", "cancelled")


def _document(folder: Path) -> Dict[str, Any]:
    path = folder / "run.json"
    try:
        is_other = path.exists() and not path.is_file()  # opening a pipe would wait for a writer
        document = None if is_other else json.loads(path.read_text(encoding="utf-8"))
    except OSError as e:
        raise Invalid(f"{path}: {e.strerror}", "A folder of results has a run.json.", "NOT_FOUND") from None
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise Invalid(f"{path}: no JSON object")
    return document


class Run:
    """The folder of the results of a job, or of a simulation."""

    def __init__(self, folder: PathLike, program: Optional[PathLike] = None) -> None:
        self.folder = Path(folder).absolute()
        self._program = program

    @property
    def document(self) -> Dict[str, Any]:
        """run.json: settings, nodes, versions, files, how the job ended."""
        return _document(self.folder)

    @property
    def id(self) -> str:
        return str(self.document.get("id", ""))

    @property
    def name(self) -> str:
        return str(self.document.get("name", ""))

    @property
    def state(self) -> str:
        """queued, running, succeeded, failed, cancelled, ..."""
        return str(self.document.get("state", ""))

    @property
    def settings(self) -> Dict[str, Any]:
        """The settings of the job on its nodes, by their names in run.json."""
        return dict(self.document.get("settings") or {})

    @property
    def options(self) -> Dict[str, str]:
        """Every option of job_submit for this job, as texts."""
        return dict((self.document.get("facts") or {}).get("options") or {})

    def _mean(self, name: str) -> float:
        value = (self.document.get("mean_over_workers") or {}).get(name)
        return math.nan if value is None else float(value)

    @property
    def accuracy(self) -> float:
        """The accuracy on the test set, of the last evaluation, the mean over the workers; nan: unknown."""
        return self._mean("eval_accuracy")

    @property
    def loss(self) -> float:
        """The loss on the test set, of the last evaluation, the mean over the workers; nan: unknown."""
        return self._mean("eval_loss")

    @property
    def sent_bytes(self) -> int:
        """Bytes that all nodes together have sent."""
        return int((self.document.get("comm") or {}).get("sent_bytes") or 0)

    @property
    def record_names(self) -> List[str]:
        return sorted(path.stem for path in (self.folder / "records").glob("*.csv"))

    def records(self, name: str = "train", pandas: Optional[bool] = None) -> Any:
        """records/NAME.csv (train, eval, comm, ...: docs/reference/records.md) as a pandas DataFrame; as a Table where pandas
        is not installed, or with pandas=False."""
        if name not in self.record_names:
            there = ", ".join(self.record_names) or "none"
            raise Invalid(f"{self.folder} has no records/{name}.csv", f"It has {there}.", "NOT_FOUND")
        return read(self.folder / "records" / f"{name}.csv", pandas)

    def model_path(self, which: str = "final") -> Path:
        """The file of the weights: final, or those of the best evaluation."""
        path = self.folder / "model" / f"{which}.safetensors"
        if not path.is_file():
            raise Invalid(f"{self.folder} has no model/{which}.safetensors", "", "NOT_FOUND")
        return path

    def load_model(self, which: str = "final", torch: bool = False) -> Dict[str, Any]:
        """As psgd.load_model() of that file."""
        return load_model(self.model_path(which), torch=torch)

    def preprocessing(self, which: str = "final") -> Optional[Dict[str, Any]]:
        """As psgd.load_preprocessing() of that file."""
        return load_preprocessing(self.model_path(which))

    def to_torch(self, which: str = "final") -> Any:
        """As psgd.to_torch() of that file."""
        return to_torch(self.model_path(which))

    def predict(self, output: PathLike, **options: Value) -> Dict[str, Any]:
        """As psgd.predict() of its final model."""
        return predict(self.folder, output, program=self._program, **options)

    def logs(self, node: Optional[int] = None) -> str:
        """The logs of the nodes, or of one of them (-2, -3, ...: a server)."""
        out = []
        for path in sorted((self.folder / "logs").glob("*-*.log")):
            role, _, number = path.stem.rpartition("-")
            is_wanted = node is None or path.stem == (f"worker-{node}" if node >= 0 else f"ps-{-node - 2}")
            if role and number.isdigit() and is_wanted:
                lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
                out += [f"{path.stem} | {line}\n" for line in lines]
        return "".join(out)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {str(self.folder)!r}>"


class Job(Run):
    """A job on agents. It runs without this object and this process; psgd.job(id) finds it again."""

    def __init__(self, id: str, folder: PathLike, program: Optional[PathLike] = None) -> None:
        super().__init__(folder, program)
        self._id = id
        self._state = ""

    @property
    def id(self) -> str:
        return self._id

    @property
    def state(self) -> str:
        """Asks the agents, until the job has ended."""
        if self._state not in ENDED:
            self._state = str(call(self._program, "status", [self._id]).data.get("state", ""))
        return self._state

    @property
    def is_ended(self) -> bool:
        return self.state in ENDED

    def wait(self, timeout: Optional[float] = None, show: bool = False, **options: Value) -> "Job":
        """Waits for the end and fetches the results. Timeout: `timeout` seconds are over, and the job goes on. JobFailed,
        Cancelled; Incomplete: not all results could be fetched. show: the job's progress, on sys.stderr. Further options are
        those of `job_submit help wait`."""
        asked: Dict[str, Value] = {**options, "timeout": timeout}
        answer = call(self._program, "wait", [self._id], asked, show=show, accepted=(0, 1, 5, 8, 9))
        if answer.problem:
            raise answer.error()
        if answer.status == Timeout.exit_status:
            raise Timeout(f"{self._id} has not ended within {timeout:g} s; it goes on", "", "TIMEOUT")
        self._state = str(answer.data.get("state", ""))
        if answer.status != 0:
            raise self._why(answer.status)
        return self

    def _why(self, status: int) -> Error:
        if status == Incomplete.exit_status:
            message = f"{self._id} succeeded, but not all its results could be fetched"
            return Incomplete(message, "fetch() tries again.", "INCOMPLETE")
        why = call(self._program, "why", [str(self.folder)]).data
        code = "JOB_FAILED" if status == JobFailed.exit_status else "CANCELLED"
        return error_of(status, str(why.get("why", f"{self._id} failed")), str(why.get("next", "")), code)

    def cancel(self, reason: Optional[str] = None) -> None:
        """Ends the job, and returns when every node has ended. Does nothing to a job that has ended."""
        answer = call(self._program, "cancel", [self._id], {"reason": reason})
        self._state = str(answer.data.get("state", ""))

    def fetch(self, **options: Value) -> "Job":
        """Fetches records, logs and model as far as they exist. The options are those of `job_submit help fetch`."""
        call(self._program, "fetch", [self._id], options, accepted=(0, Incomplete.exit_status))
        return self

    def _has_all(self) -> bool:
        try:
            kept = _document(self.folder)
        except Invalid:
            return False
        return kept.get("id") == self._id and kept.get("state") in ENDED and kept.get("is_complete") is True

    def records(self, name: str = "train", pandas: Optional[bool] = None) -> Any:
        """As Run.records(); while the job runs, the records so far."""
        if not self._has_all():
            self.fetch()
        return super().records(name, pandas)

    def logs(self, node: Optional[int] = None) -> str:
        """As Run.logs(); while the job runs, the logs so far."""
        if self._has_all():
            return super().logs(node)
        answer = run(self._program, ["logs", *([] if node is None else [f"--node={node}"]), "--", self._id])
        if answer.status != 0:
            raise answer.error()
        return answer.out


def submit(
    *, arguments: Sequence[Union[PathLike, float]] = (), program: Optional[PathLike] = None, show: bool = False, **options: Value
) -> Job:
    """Puts a job into the queue and returns, or with no_queue=True when it has started: psgd.submit(codec="fedavg",
    node_count=2, workers="worker.json"). The options are those of `job_submit help submit`; `arguments` are those of the
    program of trainer=. show: prints the messages of job_submit on sys.stderr."""
    data = call(program, "submit", arguments, {**options, "detach": True}, show=show).data
    return Job(str(data["id"]), str(data["folder"]), program)


def simulate(*, program: Optional[PathLike] = None, show: bool = False, **options: Value) -> Run:
    """Runs a job in the simulator, and returns its results. The options are those of `job_submit help simulate`."""
    answer = call(program, "simulate", (), options, show=show, accepted=(0, JobFailed.exit_status))
    if answer.status != 0 or "folder" not in answer.data:
        raise _simulation_failed(answer.data) if answer.data else answer.error()
    return Run(answer.data["folder"], program)


def _values_of(key: str, values: Any) -> List[Union[None, bool, int, float, str]]:
    """The values of a list, a range, an array of one dimension or a column of pandas."""
    try:
        if isinstance(values, (str, bytes, Mapping)):
            raise TypeError
        each = list(values)
    except TypeError:
        message = f"{key}: a {type(values).__name__} is not a list of values"
        raise UsageError(message, f'Write a list, also of one: {{"{key}": [...]}}.', "USAGE") from None
    return [plain(key, value) for value in each]


def sweep(
    values: Mapping[str, Iterable[Union[int, float, str]]],
    output: PathLike,
    *,
    arguments: Sequence[Union[PathLike, float]] = (),
    program: Optional[PathLike] = None,
    show: bool = False,
    **options: Value,
) -> List[Dict[str, Any]]:
    """Runs all combinations of some options' values: psgd.sweep({"codec": ["fedavg", "diloco"], "lr": [0.1, 0.5]}, "swept",
    repeat=3, simulate=True, epochs=2). The values are a list, or an array or column of numpy or pandas. Returns a dict for
    each combination: its "values", the number of "runs" and of those "failed", and a "mean" and a "deviation" of each result;
    the runs are in output/runs, for psgd.open(). The options are those of `job_submit help sweep`, `arguments` as of submit()."""
    if not callable(getattr(values, "items", None)):  # a DataFrame has them, too
        raise UsageError(f"a {type(values).__name__} is not a dict of lists of values", 'Write {"lr": [0.1, 0.5]}.', "USAGE")
    sets = [f"{key}={json.dumps(_values_of(key, of_key))}" for key, of_key in values.items()]
    asked: Dict[str, Value] = {**options, "set": sets, "output": output}
    answer = call(program, "sweep", arguments, asked, show=show, accepted=(0, JobFailed.exit_status))
    return list(answer.data.get("combinations") or [])


def compare(*runs: Union[Run, PathLike], program: Optional[PathLike] = None, target: Optional[float] = None) -> Dict[str, Any]:
    """Runs side by side, each a Run, a folder or a job's id: "runs" with the settings in which they differ, "results" with a
    value for each of them. target: an accuracy, to which seconds and bytes are counted."""
    names = [one.folder if isinstance(one, Run) else one for one in runs]
    return call(program, "compare", names, {"target": target}).data


def _simulation_failed(document: Mapping[str, Any]) -> JobFailed:
    """The error, with the message of the node whose failure ended the simulation."""
    cause = (document.get("failure") or {}).get("node")
    for node in document.get("nodes") or []:
        if node.get("node") == cause:
            return JobFailed(f"node({cause}), {node.get('reason')}: {node.get('message')}", "", "JOB_FAILED")
    return JobFailed("the simulation failed", "", "JOB_FAILED")


def job(id: str, program: Optional[PathLike] = None) -> Job:
    """A job that was submitted before, from Python or not."""
    data = call(program, "status", [id]).data
    return Job(id, str(data["folder"]), program)


def open_run(folder: PathLike, program: Optional[PathLike] = None) -> Run:
    """The results in a folder, of any job. As psgd.open()."""
    _document(Path(folder))
    return Run(folder, program)


def predict(path: PathLike, output: PathLike, *, program: Optional[PathLike] = None, **options: Value) -> Dict[str, Any]:
    """The model in a file, or in a folder of results, on data: writes a table with a row for each sample, and returns the
    metrics; without labels or targets there are none. The options are those of `job_submit help predict`."""
    answer = call(program, "predict", [path], {"output": output, **options})
    return dict(answer.data.get("metrics") or {})
