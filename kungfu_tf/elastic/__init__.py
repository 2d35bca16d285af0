"""Training that goes on while peers come and go."""

from kungfu_tf.keras.callbacks.elastic import ElasticCallback
from kungfu_tf.keras.elastic.training import fit
from kungfu_tf.membership.elastic_state import ElasticContext, ElasticState

__all__ = ["ElasticCallback", "ElasticContext", "ElasticState", "fit"]
