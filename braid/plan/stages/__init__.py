"""What all stages have in common: records, the protocol of a stage, JSON, event times."""
