"""The means of doing harm: damaged files, full disks, a proxy that loses."""
