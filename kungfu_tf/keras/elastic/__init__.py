"""`elastic.fit`: a training that continues while peers come and go."""
