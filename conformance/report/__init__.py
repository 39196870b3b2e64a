"""What the suite has shown: rows of the mission, who took part, and the page made of it."""
