"""The page that makes, changes and duplicates tasks."""
