"""From a typed query to stages: rewrite rules, one per file, then lowering."""
