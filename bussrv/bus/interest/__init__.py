"""What members want: interests, and whether they let an object pass."""
