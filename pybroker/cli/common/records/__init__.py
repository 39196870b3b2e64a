"""Records as text, for the verbs that read or write them: ``consume``, ``produce``, ``log dump`` and Kafka's scripts.

Start with ``record_documents`` (a record as JSON) and ``record_format`` (``-f``, kcat's letters). ``copying`` sends
documents to another topic, ``segment_text`` shows the files of a log, ``internal_*`` show records of internal topics.
This room imports ``verbs`` and ``words`` of ``cli/common``.
"""
