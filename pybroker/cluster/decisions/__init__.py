"""What the controller decides, as pure functions of the image: no I/O, no clock."""
