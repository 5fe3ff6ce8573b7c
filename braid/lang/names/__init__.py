"""What names mean: definitions, relations, columns, connectors, time bounds."""
