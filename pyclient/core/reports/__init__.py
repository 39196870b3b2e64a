"""Reports to the application beside results and errors: log lines, warnings, advice.

``last_resort`` shows urgent lines if the application has not configured logging; ``rare`` limits lines about records.
``outages`` and ``absent_coordinators`` report what cannot be reached, ``rights`` names the missing right, and
``unclosed`` warns about clients that are not closed.
"""
