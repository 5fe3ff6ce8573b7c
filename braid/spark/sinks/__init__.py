"""What queries write: categories, tables, lookup tables, and relays to others."""
