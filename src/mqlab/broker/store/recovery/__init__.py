"""Recovery: from journal files to the state that they describe, and the check of a store that no broker uses."""
