"""Program text to statements as written."""
