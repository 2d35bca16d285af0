"""The extension point for codecs: how gradients travel between the peers.

A codec is a dataclass, whose fields are its settings, and says what the peers exchange:

```python
@dataclasses.dataclass(kw_only=True, eq=False)
class Signs(kf.compression.Codec):
    '''The mean of the signs, a byte for each element, times a size that all peers know.'''

    size: float = 1e-3

    def means(self, values, variables, channel):
        signs = [tf.cast(tf.sign(value), tf.float16) for value in values]
        means = channel.mean(signs)
        return [self.size * tf.cast(m, v.dtype) for m, v in zip(means, values)]
```
"""

from __future__ import annotations

import dataclasses
import functools
import zlib
from collections.abc import Sequence
from typing import Any, NoReturn, TypeVar

import numpy as np
import tensorflow as tf

from kungfu_tf import errors, peer
from kungfu_tf.exchange.channel import Channel
from kungfu_tf.ops.any_tensors import gather_any

Self = TypeVar("Self", bound="Codec")


@dataclasses.dataclass(kw_only=True, eq=False)
class Codec:
    """How gradients travel. The peers must have the same codec, with the same settings.

    A subclass is a dataclass, too: peers compare its `repr`, and an optimizer makes a copy from its
    fields. Sparse rows never come to a codec: they travel as they are.
    """

    @functools.cached_property
    def state(self) -> tf.Module:
        """What it remembers, as `tf.train.Checkpoint` takes it. All peers have as much.

        `share` makes it equal on all peers.
        """
        return tf.Module()

    @property
    def number(self) -> int:
        """A number of 31 bits that differs if the settings do."""
        return zlib.crc32(repr(self).encode()) & 0x7FFFFFFF

    @property
    def says_what_was_sent(self) -> bool:
        """Whether it has `exchanged`, so that an `ErrorFeedback` can keep the rest."""
        return type(self).exchanged is not Codec.exchanged

    def anew(self: Self) -> Self:
        """The same codec, with a state of its own. So have the codecs that it is made of."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        inner = {name: v.anew() for name, v in values.items() if isinstance(v, Codec)}
        return dataclasses.replace(self, **inner)

    def build(self, variables: Sequence[Any]) -> None:
        """Creates its state for these variables, if it is not there yet. `fit` calls it.

        Newcomers to a loop of your own call it, before they get `state` along with the model.
        """
        del variables

    def share(self, name: str = "compression") -> None:
        """Makes the state equal on all peers, before it is saved or sent to newcomers.

        Eager; all peers call it.

        Args:
            name: The prefix of the names of its operations.
        """
        del name

    def means(self, values: Sequence[Any], variables: Sequence[Any], channel: Channel) -> list[Any]:
        """Returns the means over the peers of what arrives, bitwise equal on all of them.

        It is traced in a `tf.function`, and called once in each exchange.

        Args:
            values: Dense tensors, such as gradients, in which this peer's weight is a factor. In a
                function their shapes may be unknown; those of the variables are known then.
            variables: What they belong to.
            channel: By which the peers exchange something.

        Returns:
            Tensors of the same shapes and dtypes. They are not all finite if those of a peer are
            not.
        """
        raise NotImplementedError

    def exchanged(
        self, values: Sequence[Any], variables: Sequence[Any], channel: Channel
    ) -> tuple[list[Any], list[Any]]:
        """Returns the means, and what of this peer's values the others have got.

        A codec has it so that `ErrorFeedback` can keep what is missing.

        Args:
            values: As for `means`, like the rest.
            variables: What they belong to.
            channel: By which the peers exchange something.

        Returns:
            Two lists of tensors, of the shapes and dtypes of the values: those of `means`, and
            what the others take this peer's values for.
        """
        raise NotImplementedError


def check_codec(compression: Any) -> None:
    """Checks the argument of that name.

    Raises:
        TypeError: If it is neither a codec nor None.
    """
    if compression is None or isinstance(compression, Codec):
        return
    is_class = isinstance(compression, type) and issubclass(compression, Codec)
    advice = f"give an instance, {compression.__name__}(...)" if is_class else _EXAMPLE
    raise TypeError(
        f"compression is a codec of kungfu_tf.compression, not {compression!r}: {advice}"
    )


def check_inner(title: str, codec: Any) -> None:
    """Checks what a codec is made of.

    Args:
        title: The name of that codec, for the message.
        codec: What it was given.

    Raises:
        TypeError: If it is no codec.
    """
    if not isinstance(codec, Codec):
        raise TypeError(f"{title} takes a codec of kungfu_tf.compression, not {codec!r}")


def refuse_different(codec: str, *, name: str) -> NoReturn:
    """Says which peers have which codec. Eager; all peers call it.

    Args:
        codec: What this peer's is called.
        name: Whose it is. It names the operations, and is in the message.

    Raises:
        tf.errors.InvalidArgumentError: On every peer.
    """
    gathered = gather_any([np.array(codec.encode(), object)], name=f"{name}/codecs")
    ranks: dict[str, list[int]] = {}
    for rank, [of_rank] in enumerate(gathered):
        ranks.setdefault(of_rank.item().decode(), []).append(rank)
    found = " and ".join(f"{text} on {peer.names_of(of_text)}" for text, of_text in ranks.items())
    message = f"{name}: compression must be the same on all peers, and is {found}"
    raise tf.errors.InvalidArgumentError(None, None, errors.linked("compression-differs", message))


_EXAMPLE = "such as kungfu_tf.compression.PowerSGD(rank=4)"
