"""What several handlers share: the call, turns for long requests, forwarding, admission to a transaction."""
