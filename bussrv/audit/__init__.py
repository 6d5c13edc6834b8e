"""The PySpark batch job that audits journals."""
