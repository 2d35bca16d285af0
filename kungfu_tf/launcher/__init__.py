"""kungfu-run: starts, watches and stops the peers of one host.

It imports no TensorFlow. It asks the core only for its settings (`native/environment.py`).

A room knows only the rooms below it:

command     the commands, and the event loop of a runner
deciding    which peers take part: the first host's runner decides, and each host carries it out
document    the cluster document, by which others ask for a number of peers, and its stores
output      the output of the peers, and messages about their end
processes   the peers as processes: their environment, their start, their end
placing     which hosts, ports, GPUs and cores the peers get
channels    sockets and their protocols, secrets of a job, signals: how its parts communicate
options     the command line, and the secrets that a user gives

A peer that has ended, or will end, has one of four words:

finished    its program ended in order, with exit code 0
failed      it ended otherwise, or was silent for too long
leaving     a resize goes on without it; it still runs until it has finished
stopped     the launcher has asked it to end
"""
