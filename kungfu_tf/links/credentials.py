"""The identity and the secret of a job, which its processes prove to each other."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Credentials:
    """The id and the secret of a job. Peers get them in their environment; they are never shown."""

    job_id: str
    secret: str = dataclasses.field(repr=False)
    warning: str | None = None
    insecure: bool = False  # all know the secret
