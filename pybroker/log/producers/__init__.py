"""What a log remembers of producers: duplicates, fencing, ongoing transactions."""
