"""Log dirs: the folders in them, their names, and what each name means at a start.

Start with ``log_dir`` (a dir, its checkpoint files, and how it fails) and ``folder_states`` (the table of all names).
``folders`` has Kafka's names of folders, and ``closed_logs`` the states of logs that a clean stop has recorded.
``missing_directories`` finds dirs whose disk is missing. This room imports ``log/files``, and the names of files from
``segment`` and ``producers``.
"""
