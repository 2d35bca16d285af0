"""The place of this process in a job that another launcher than `kungfu-run` has started."""
