"""Connections of all protocols, as the broker sees them: the methods it calls, and the sockets of ended ones."""
