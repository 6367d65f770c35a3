"""Published values of a study, and their match with points, exhibits and claims."""
