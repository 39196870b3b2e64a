"""What several verbs share: how they find a cluster, show rows, name offsets, ask before they destroy, and end.

Start with ``verbs`` (how a verb is found and run), ``cluster_options`` (what every verb that asks a cluster takes) and
``output`` (``-o table|json|…`` and exit codes). ``records`` has what shows records. A verb is a module of
``pybroker.cli`` and imports from here what it needs.
"""
