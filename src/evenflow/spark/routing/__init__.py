"""From a frame and a key to a worker for every row."""
