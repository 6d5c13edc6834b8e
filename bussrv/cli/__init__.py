"""The ``bussrv`` command."""
