"""How much Hypothesis tries: ``HYPOTHESIS_PROFILE=thorough`` before a release, the default otherwise."""

import os

from hypothesis import HealthCheck, settings

# No deadline: how long one example takes says more about the machine than the code, and pytest-timeout ends what hangs.
settings.register_profile("default", deadline=None, derandomize=False, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("thorough", settings.get_profile("default"), max_examples=5000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))
