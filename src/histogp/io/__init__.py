"""Files: a container of arrays and JSON, atomic replacement."""
