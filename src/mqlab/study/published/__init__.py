"""Published values, and how they match the points, exhibits and claims of a study."""
