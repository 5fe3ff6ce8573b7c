"""Client of the service: what it says and is told (`models`), and how to reach it (`http`)."""
