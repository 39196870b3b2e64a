"""What a client tells its application beside results and errors, in words and seldom: log lines, warnings, advice.

``last_resort`` shows urgent lines where the application has not configured logging; ``rare`` keeps lines about records
seldom. ``outages`` and ``absent_coordinators`` report what is out of reach, ``rights`` says which right is missing, and
``unclosed`` warns about clients that are not closed.
"""
