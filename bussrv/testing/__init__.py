"""Helpers for tests of bussrv and of wire formats written for it."""
