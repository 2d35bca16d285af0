"""Who takes part in a job, and what each host does for it."""
