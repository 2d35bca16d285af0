"""The error that all of the launcher raises."""


class LaunchError(Exception):
    """The job cannot be started as requested; the message says why and what to do.

    `exit_code` is the exit code of `kungfu-run`: 2 for a wrong command line, host or setting. As in
    shells it is 126 for a program that cannot be run, and 127 for one that is not found.
    """

    def __init__(self, message: str, *, exit_code: int = 2) -> None:
        super().__init__(message)
        self.exit_code = exit_code
