"""STOMP 1.2 as a wire format of bussrv."""
