"""Lists of hosts, and finding this machine in them."""

import ipaddress
from pathlib import Path

import pytest

from kungfu_tf.launcher.options.launch_error import LaunchError
from kungfu_tf.launcher.placing import hosts, interfaces
from kungfu_tf.launcher.placing.hosts import Host

ip = ipaddress.ip_address


def test_a_list_of_hosts() -> None:
    assert hosts.parse_hosts("10.0.0.1:4, 10.0.0.2:2:gpu2.example.org,10.0.0.3") == [
        Host(ip("10.0.0.1"), 4),
        Host(ip("10.0.0.2"), 2),
        Host(ip("10.0.0.3"), 1),
    ]


def test_ipv6_goes_in_brackets() -> None:
    assert hosts.parse_hosts("[fd00::1]:4,[fd00::2]:2:[2001:db8::2]") == [
        Host(ip("fd00::1"), 4),
        Host(ip("fd00::2"), 2),
    ]
    assert hosts.parse_hosts("[::1]:2")[0].address == ip("::1")


def test_names_are_resolved_and_mapped_addresses_are_ipv4() -> None:
    assert hosts.parse_hosts("localhost:2")[0].address == ip("127.0.0.1")
    assert hosts.resolve("[::ffff:10.0.0.1]") == ip("10.0.0.1")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("10.0.0.1:2,10.0.0.2:x", "-H: item 2 '10.0.0.2:x' has 'x' as its number of slots"),
        ("10.0.0.1:0", "item 1 '10.0.0.1:0' has '0' as its number of slots"),
        ("10.0.0.1:2,,10.0.0.2:2", "item 2 '' names no host"),
        ("::1", "item 1 '::1' is not understood; an IPv6 address goes in brackets"),
        ("fd00::1:2", "goes in brackets"),
        ("[fd00::zz]:2", "has no IPv6 address in its brackets: 'fd00::zz'"),
        ("[fe80::1]:2", "is link-local"),
        ("0.0.0.0:2", "is not the address of one host"),
        ("no-such-host.invalid:2", "item 1 'no-such-host.invalid:2' cannot be resolved"),
        ("10.0.0.1:2,10.0.0.1:2", "10.0.0.1 is there twice"),
        ("127.0.1.1:2,10.0.0.2:2", "127.0.1.1 is a loopback address"),
    ],
)
def test_errors_name_the_item(text: str, says: str) -> None:
    with pytest.raises(LaunchError) as caught:
        hosts.parse_hosts(text)
    assert says in str(caught.value)


def test_a_hostfile(tmp_path: Path) -> None:
    path = tmp_path / "hosts.txt"
    path.write_text(
        "# our machines\n\n10.0.0.1 slots=4  # fast\n"
        "10.0.0.2 slots=2 public_addr=gpu2.example.org\n10.0.0.3:8\n10.0.0.4\n"
    )
    assert hosts.read_hostfile(str(path)) == [
        Host(ip("10.0.0.1"), 4),
        Host(ip("10.0.0.2"), 2),
        Host(ip("10.0.0.3"), 8),
        Host(ip("10.0.0.4"), 1),
    ]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("10.0.0.1 slots=4\n\n10.0.0.2 cpus=4\n", "hosts.txt:3: '10.0.0.2 cpus=4' has 'cpus=4'"),
        ("10.0.0.1 slots=many\n", "hosts.txt:1: '10.0.0.1 slots=many' has 'many'"),
        ("# nobody\n", "hosts.txt: names no host"),
        ("10.0.0.1\n10.0.0.1\n", "hosts.txt: 10.0.0.1 is there twice"),
    ],
)
def test_errors_name_the_line(tmp_path: Path, content: str, says: str) -> None:
    path = tmp_path / "hosts.txt"
    path.write_text(content)
    with pytest.raises(LaunchError) as caught:
        hosts.read_hostfile(str(path))
    assert says in str(caught.value)


def test_a_hostfile_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(LaunchError, match="-hostfile: cannot read"):
        hosts.read_hostfile(str(tmp_path / "none"))


def test_a_list_of_peers() -> None:
    first, second = hosts.parse_places("10.0.0.1:7000,[fd00::1]:7001:3")
    assert (first.address, first.port, first.slot) == (ip("10.0.0.1"), 7000, None)
    assert (second.address, second.port, second.slot) == (ip("fd00::1"), 7001, 3)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("10.0.0.1", "-P: item 1 '10.0.0.1' has no port"),
        ("10.0.0.1:1,10.0.0.1:99999", "-P: item 2 '10.0.0.1:99999' has '99999' as its port"),
        ("10.0.0.1:1,10.0.0.1:1", "-P: item 2 '10.0.0.1:1' is there twice"),
    ],
)
def test_errors_name_the_peer(text: str, says: str) -> None:
    with pytest.raises(LaunchError) as caught:
        hosts.parse_places(text)
    assert says in str(caught.value)


def test_the_loopback_interface_has_its_address() -> None:
    assert ip("127.0.0.1") in interfaces.addresses()["lo"]


def test_this_host_is_found_by_self_by_nic_and_by_looking() -> None:
    addresses = [ip("192.0.2.77"), ip("127.0.0.1")]
    assert hosts.find_self(addresses, self_address="192.0.2.77") == ip("192.0.2.77")
    assert hosts.find_self(addresses, nic="lo") == ip("127.0.0.1")
    assert hosts.find_self(addresses) == ip("127.0.0.1")


@pytest.mark.parametrize(
    ("listed", "self_address", "nic", "says"),
    [
        (["192.0.2.77"], "192.0.2.78", None, "-self: 192.0.2.78 is not one of the job's hosts"),
        (["127.0.0.1"], "no-such-host.invalid", None, "-self: 'no-such-host.invalid' cannot"),
        (["127.0.0.1"], None, "nosuchnic0", "no interface 'nosuchnic0' with an address; there are"),
        (["192.0.2.77"], None, "lo", "none of the addresses of lo, 127.0.0.1"),
        (["192.0.2.77"], None, None, "none of this machine's addresses is one of the job's hosts"),
        (["127.0.0.1", "127.0.0.2"], None, None, "(127.0.0.1, 127.0.0.2): say -self"),
    ],
)
def test_why_this_host_is_not_found(
    listed: list[str], self_address: str | None, nic: str | None, says: str
) -> None:
    with pytest.raises(LaunchError) as caught:
        hosts.find_self([ip(item) for item in listed], self_address=self_address, nic=nic)
    assert says in str(caught.value)
