"""The words that every layer uses: errors, options, sides, positions, times, JSON."""
