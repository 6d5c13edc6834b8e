"""From the segments of journals to facts, in one pass and in pure Python, without Spark and Twisted."""
