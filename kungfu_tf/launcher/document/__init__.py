"""The cluster document: how many peers a job is to have, said and read by others than its peers."""
