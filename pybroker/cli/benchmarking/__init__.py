"""What ``pybroker bench`` measures: ``measures`` has the figures, ``runs`` the work.

Start with ``runs``. It uses the client's public names, as any application does.
"""
