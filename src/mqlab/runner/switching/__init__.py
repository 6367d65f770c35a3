"""One run measures several points, between whose settings the lab switches the system, slice by slice."""
