"""Files with which the service itself is deployed: templates, and what fills them in."""
