"""What queries read: categories, files, topics, and the steps of an operator."""
