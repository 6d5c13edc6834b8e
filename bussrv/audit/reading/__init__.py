"""From journals on the disk to records: segments, lines, seals and chains, and what is wrong with them."""
