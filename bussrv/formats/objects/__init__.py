"""Object System and Business Object: clients, services and servers that exchange objects."""
