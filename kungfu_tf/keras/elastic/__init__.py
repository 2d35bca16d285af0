"""`elastic.fit`: a training that goes on while peers come and go."""
