"""What several verbs share: how they find a cluster, show rows, name offsets, ask before they destroy, and end.

Start with ``verbs`` (how a verb is found and run), ``cluster_options`` (the options of every verb that asks a cluster)
and ``output`` (``-o table|json|…`` and exit codes). ``records`` shows records. A verb is a module of ``pybroker.cli``
and imports from here what it needs.
"""
