"""What no sound server writes: findings about what records say."""
