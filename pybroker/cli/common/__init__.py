"""What several verbs share: how they find a cluster, show rows, name offsets, ask before they destroy, and end."""
