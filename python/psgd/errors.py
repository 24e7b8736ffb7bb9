"""Errors with the messages of job_submit. Each class stands for an exit status of job_submit (docs/reference/status.md)."""
from __future__ import annotations

from typing import Dict, Type


class Error(Exception):
    """`message`: what happened, and where; `hint`: what to do, or ""; `code` as job_submit prints it."""

    exit_status = 70

    def __init__(self, message: str, hint: str = "", code: str = "INTERNAL") -> None:
        super().__init__(message, hint, code)
        self.message, self.hint, self.code = message, hint, code

    def __str__(self) -> str:
        return f"{self.message}\n{self.hint}" if self.hint else self.message


class JobFailed(Error):
    """The job ended with an error; its records so far are in its folder."""

    exit_status = 1


class UsageError(Error, ValueError):
    """An unknown option, or a value that an option does not accept."""

    exit_status = 2


class Unreachable(Error, ConnectionError):
    exit_status = 3


class Refused(Error):
    """An agent is busy and no_queue was given, or it takes no new jobs."""

    exit_status = 4


class Timeout(Error, TimeoutError):
    """The time given to wait() is over; the job goes on."""

    exit_status = 5


class Invalid(Error, ValueError):
    """A file, a codec, a model or data that cannot be used."""

    exit_status = 6


class Unauthorized(Error, PermissionError):
    exit_status = 7


class Cancelled(Error):
    exit_status = 8


class Incomplete(Error):
    """The job succeeded, but not all its results could be fetched."""

    exit_status = 9


def _all(of: Type[Error]) -> Dict[int, Type[Error]]:
    return {kind.exit_status: kind for kind in of.__subclasses__()}


def error_of(status: int, message: str, hint: str = "", code: str = "INTERNAL") -> Error:
    """The error for an exit status of job_submit."""
    return _all(Error).get(status, Error)(message, hint, code)
