"""The version of this package, in one place and without imports, so that packaging can read it."""

VERSION = "0.1.0"
