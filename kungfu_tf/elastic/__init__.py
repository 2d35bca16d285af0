"""Training that goes on while peers come and go."""

from kungfu_tf.elastic.callback import ElasticCallback
from kungfu_tf.elastic.state import ElasticContext, ElasticState
from kungfu_tf.elastic.training import fit

__all__ = ["ElasticCallback", "ElasticContext", "ElasticState", "fit"]
