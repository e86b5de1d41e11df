"""Property tests draw the same examples every time, so that a verdict is about the change.

`--hypothesis-profile=explore` draws new ones.
"""

from hypothesis import settings

settings.register_profile("explore", deadline=None, print_blob=True)
settings.register_profile("steady", settings.get_profile("explore"), derandomize=True)
settings.load_profile("steady")
