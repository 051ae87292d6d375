"""What to label next: strategies, a query, and a loop that asks, learns and asks again."""

from histogp.active.learner import ActiveLearner
from histogp.active.pool import query
from histogp.active.strategies import STRATEGIES

__all__ = ["STRATEGIES", "ActiveLearner", "query"]
