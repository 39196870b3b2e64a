"""Reports what the suite has shown: the mission's rows, the clients that took part, and the page about them."""
