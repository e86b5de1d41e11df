"""No deadlines: how long one example takes says more about the machine than about the graph."""

from hypothesis import settings

settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")
