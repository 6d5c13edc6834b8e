"""What a session may do, by the policy."""
