"""Foreign clients at a broker that authenticates them, and authorizes them by ACLs: S112."""
