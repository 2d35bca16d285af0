"""The one error of the launcher."""


class LaunchError(Exception):
    """The job cannot be started as it was asked for; the message says why and what to do.

    `exit_code` is what `kungfu-run` ends with: 2 for a wrong command line, a wrong host or a wrong
    setting; 126 and 127, as shells have it, for a program that cannot be run or found.
    """

    def __init__(self, message: str, *, exit_code: int = 2) -> None:
        super().__init__(message)
        self.exit_code = exit_code
