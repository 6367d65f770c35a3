"""The measure tables whose rows sum up several runs: points, pairs of points and systems, and peaks."""
