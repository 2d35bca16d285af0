"""The URL of -config-server, which names a store of the cluster document.

http://10.0.0.1:9100                        a config server; also https
etcd://10.0.0.1:2379/job                    etcd, and a name of the job's keys in it; etcds: TLS
etcds://user@a:2379,b:2379,c:2379/team/job  a user, and several members of the etcd cluster
"""

import dataclasses
import re
import urllib.parse

_CONFIG_SERVER = "http://10.0.0.1:9100"
_ETCD = "etcd://10.0.0.1:2379/job"
_SCHEMES = {"etcd": "http", "etcds": "https"}
_MEMBER = re.compile(r"(\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9._-]{1,253})(:[0-9]{1,5})?")
_PORT = ":2379"


@dataclasses.dataclass(frozen=True)
class EtcdUrl:
    """A URL of etcd.

    Attributes:
        members: The URLs of members of the etcd cluster: http://10.0.0.1:2379.
        user: The user; None: etcd needs none.
        job: The name before the job's keys: /job.
    """

    members: tuple[str, ...]
    user: str | None
    job: str


def is_etcd(url: str) -> bool:
    """Whether this is a URL of etcd."""
    return url.partition("://")[0] in _SCHEMES


def parse_etcd(url: str) -> EtcdUrl:
    """Parses a URL of etcd. The ValueError says what is wrong."""
    parts = urllib.parse.urlsplit(url)
    user, at, places = parts.netloc.rpartition("@")
    if ":" in user:
        raise ValueError("has a password: give it in KUNGFU_CONFIG_TOKEN")
    found = [_MEMBER.fullmatch(place) for place in places.split(",")]
    job = parts.path.rstrip("/")
    if None in found or (at and not user) or not job or parts.query or parts.fragment:
        raise ValueError(f"is not a URL like {_ETCD}")
    scheme = _SCHEMES[parts.scheme]
    members = tuple(f"{scheme}://{one[1]}{one[2] or _PORT}" for one in found if one)
    return EtcdUrl(members, urllib.parse.unquote(user) or None, job)


def checked(url: str) -> str:
    """The URL, without an ending that means nothing. The ValueError says what is wrong with it."""
    if is_etcd(url):
        parse_etcd(url)
        return url
    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query:
        raise ValueError(f"is not a URL like {_CONFIG_SERVER} or {_ETCD}")
    return url.rstrip("/").removesuffix("/get").removesuffix("/config")
