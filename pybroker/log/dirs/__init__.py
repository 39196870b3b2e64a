"""Log dirs: the folders in them, their names, and what each name means at a start.

Start with ``log_dir`` (a dir, its checkpoint files, and how it fails) and ``folder_states`` (the table of all names).
``folders`` has Kafka's names of folders, ``closed_logs`` what a clean stop noted, ``missing_directories`` dirs that are
not there. It imports ``log/files``, and of ``segment`` and ``producers`` the names of their files.
"""
