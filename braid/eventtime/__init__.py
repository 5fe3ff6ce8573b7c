"""Event time: stream-time estimation, pacing of two inputs, timestamp validity."""
