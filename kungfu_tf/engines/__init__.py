"""Jobs whose processes an engine starts: Ray or Spark.

    caller ── engine ──┬─ worker ── child 0
                       └─ worker ── child 1 …

A worker is a process of the engine: an actor of Ray, or a task of Spark. It sends its address to
the caller and receives an order: the job, its secret, all addresses and the function. It runs the
function in a child, which is a peer. The child is a new interpreter, because an engine's process
may serve several jobs, and a process can be a peer once only. It ends with its worker.

The peers of an elastic job, which only Ray has, say over their workers what those of `kungfu-run`
say to their runner, and the caller's Leader decides for all: ray_elastic.py.

The function and its results travel as pickles, by the engine's own ways. Every user of the cluster
can run code on it, with or without kungfu_tf.
"""
