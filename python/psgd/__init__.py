"""psgd from Python: jobs, their records, and their models.

    import psgd

    job = psgd.submit(codec="fedavg", node_count=2, epochs=2, workers="worker.json")
    job.wait()
    print(job.records("eval"))
    weights = job.load_model()

The keyword arguments of submit(), simulate() and sweep() are the options of job_submit, with '_' for '-'. Only the standard library is
needed: records are a DataFrame where pandas is installed, weights numpy arrays where numpy is, and to_torch() and
to_safetensors() need PyTorch. docs/python.md is the manual.
"""
from .errors import (
    Cancelled,
    Error,
    Incomplete,
    Invalid,
    JobFailed,
    Refused,
    Timeout,
    Unauthorized,
    Unreachable,
    UsageError,
)
from .jobs import Job, Run, compare, job, open_run, predict, simulate, submit, sweep
from .models import load_model, load_preprocessing, to_safetensors, to_torch
from .records import Table
from .safetensors import read as read_safetensors
from .safetensors import write as write_safetensors

__version__ = "0.1.0"  # as in pyproject.toml

open = open_run  # psgd.open(folder)

__all__ = [
    "Cancelled",
    "Error",
    "Incomplete",
    "Invalid",
    "Job",
    "JobFailed",
    "Refused",
    "Run",
    "Table",
    "Timeout",
    "Unauthorized",
    "Unreachable",
    "UsageError",
    "__version__",
    "compare",
    "job",
    "load_model",
    "load_preprocessing",
    "open",
    "predict",
    "read_safetensors",
    "simulate",
    "submit",
    "sweep",
    "to_safetensors",
    "to_torch",
    "write_safetensors",
]
