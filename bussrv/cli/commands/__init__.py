"""The commands, each named by its function.

- ``operate``: commands that watch and steer a running server
- ``records``: commands that read journals
- ``set_up``: commands that make and check the files of a server
- ``talk``: commands that are clients of a bus
"""
