"""Plans for people: explain, words, PQL."""
