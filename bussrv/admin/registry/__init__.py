"""Sessions, services, subscriptions and links: shown, and changed by operators."""
