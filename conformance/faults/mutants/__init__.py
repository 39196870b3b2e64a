"""What changes modules of a process from outside (``sitecustomize``)."""
