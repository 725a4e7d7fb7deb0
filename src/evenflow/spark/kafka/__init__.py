"""Topics of Kafka as frames: reading and decoding, writing exactly once, dropping duplicates."""
