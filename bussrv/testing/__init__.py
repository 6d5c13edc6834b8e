"""What tests of bussrv, and of wire formats written for it, are made with."""
