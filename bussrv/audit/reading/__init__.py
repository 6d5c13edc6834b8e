"""From the files of journals to records, and findings about segments, lines, seals and chains."""
