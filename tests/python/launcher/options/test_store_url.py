"""The URL of -config-server."""

from __future__ import annotations

import pytest

from kungfu_tf.launcher.options import given_secrets, store_url
from kungfu_tf.launcher.options.launch_error import LaunchError
from kungfu_tf.launcher.options.store_url import EtcdUrl


@pytest.mark.parametrize(
    ("url", "parsed"),
    [
        ("etcd://10.0.0.1:2379/job", EtcdUrl(("http://10.0.0.1:2379",), None, "/job")),
        ("etcds://me@a,[::1]:7/x/y/", EtcdUrl(("https://a:2379", "https://[::1]:7"), "me", "/x/y")),
        ("etcd://a%40b@host/job", EtcdUrl(("http://host:2379",), "a@b", "/job")),
    ],
)
def test_urls_of_etcd(url: str, parsed: EtcdUrl) -> None:
    assert store_url.checked(url) == url
    assert store_url.parse_etcd(url) == parsed


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("etcd://10.0.0.1:2379", "is not a URL like"),
        ("etcd://10.0.0.1:2379/", "is not a URL like"),
        ("etcd:///job", "is not a URL like"),
        ("etcd://a,,b/job", "is not a URL like"),
        ("etcd://@a/job", "is not a URL like"),
        ("etcd://a/job?x=1", "is not a URL like"),
        ("etcd://me:secret@a/job", "has a password: give it in KUNGFU_CONFIG_TOKEN"),
        ("ftp://10.0.0.1", "is not a URL like"),
        ("http:///get", "is not a URL like"),
    ],
)
def test_urls_of_no_store(url: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        store_url.checked(url)


def test_a_user_of_etcd_has_a_password_of_any_length() -> None:
    url = "etcd://me@10.0.0.1/job"
    given = given_secrets.read({"KUNGFU_CONFIG_TOKEN": "x"}, url)
    assert given_secrets.of_store(url, given.config_token) == "x"
    assert given_secrets.of_store("etcd://10.0.0.1/job", None) == ""
    with pytest.raises(LaunchError, match="the password of etcd's user 'me' is missing"):
        given_secrets.of_store(url, None)
    with pytest.raises(LaunchError, match="has 1 characters, not 16-4096"):
        given_secrets.read({"KUNGFU_CONFIG_TOKEN": "x"}, "http://10.0.0.1:9100")
