"""The means of doing harm: damaged files, full disks, a lossy proxy."""
