"""HTTP: connections, requests, who may send them, and answers."""
