"""kungfu-run: starts, watches and stops the peers of one host.

No TensorFlow; of the core it only asks what may be set (`native/environment.py`).

A room knows only the rooms below it:

command     the commands, and the event loop of a runner
deciding    who takes part, and what each host does for it: the first host's runner decides for all
document    the cluster document, by which others say how many peers a job is to have
output      what the peers print, and what is said of their end
processes   the peers as processes: their environment, their start, their end
placing     which hosts, ports, GPUs and cores the peers get
channels    sockets and their protocols, secrets of a job, signals: how its parts hear of each other
options     the command line, and the secrets that a user gives

A peer that is no more has one of four words:

finished    its program ended in order, with exit code 0
failed      it ended otherwise, or was silent for too long
leaving     a resize goes on without it; it still runs until it has finished
stopped     the launcher has asked it to end
"""
