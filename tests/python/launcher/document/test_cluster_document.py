"""The cluster document."""

from typing import Any

import pytest

from kungfu_tf.launcher.document import cluster_document


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ([], "a document is an object"),
        ({"workers": []}, "at least one"),
        ({"workers": "10.0.0.1:1"}, "not a list"),
        ({"workers": ["10.0.0.1"]}, "not an address and a port"),
        ({"workers": ["10.0.0.1:70000"]}, "not an address and a port"),
        ({"workers": [["10.0.0.1:1"]]}, "not an address and a port"),
        ({"workers": ["a:1", "a:1"]}, "twice"),
        ({"workers": ["a:1"], "runners": 3}, "'runners' is not a list"),
        ({"workers": ["a:1"], "version": True}, "not a number"),
        ({"workers": ["a:1"], "version": -1}, "not a number"),
    ],
)
def test_what_is_no_document(content: Any, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        cluster_document.parse(content)
