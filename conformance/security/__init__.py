"""Foreign clients at a broker that asks who they are, and lets them do what ACLs allow: S112."""
