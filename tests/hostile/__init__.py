"""A broker in its own process under attack through its listeners."""
