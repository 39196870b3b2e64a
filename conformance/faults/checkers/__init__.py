"""Compares what clients were told with what brokers hold; tests show that each checker catches the planted anomalies.
"""
