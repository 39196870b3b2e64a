"""The means of doing harm: damaged files, full disks, secured brokers."""
