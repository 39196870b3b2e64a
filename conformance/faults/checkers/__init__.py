"""What clients were told against what brokers have: each checker catches the anomalies that are planted."""
