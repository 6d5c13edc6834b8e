"""The files of a server that other machines may reach, for ``bussrv init``. No part of the server imports it."""
