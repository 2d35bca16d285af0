"""Who takes part in a job, decided by the first host's runner for all hosts."""
