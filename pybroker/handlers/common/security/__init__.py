"""What handlers share about security: which rights a request needs, and users, ACLs and delegation tokens.

Start with ``rights`` (each API's row names the rights that it needs). ``first_acls`` and ``first_users`` store what a
start adds, and ``tokens`` and ``acls`` serve several requests each. This room imports ``call``, ``pacing`` and
``config_writes`` of ``handlers/common``, ``pybroker.security``, and no handler.
"""
