"""Opens the store that a URL names (store_url.py)."""

from kungfu_tf.launcher.channels.etcd import Etcd
from kungfu_tf.launcher.document.etcd_store import EtcdStore
from kungfu_tf.launcher.document.http_store import HttpStore
from kungfu_tf.launcher.document.store import Store
from kungfu_tf.launcher.options import store_url


def open_store(url: str, secret: str) -> Store:
    """Returns the store, without asking it anything.

    Args:
        url: The URL of -config-server.
        secret: The token for a config server, or the password of etcd's user.
    """
    if not store_url.is_etcd(url):
        return HttpStore(url, secret)
    etcd = store_url.parse_etcd(url)
    return EtcdStore(Etcd(etcd.members, etcd.user, secret), etcd.job)
