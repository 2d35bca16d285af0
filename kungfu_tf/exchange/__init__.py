"""How an optimizer's update is wrapped, of any generation: algorithms, buckets, loss scale."""
