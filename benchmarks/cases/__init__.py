"""The cases. Every module of this package is discovered; a new case is a decorated function in any of them."""
