"""Learning from sums over examples, in the space of features: time linear in the examples, memory bounded."""
