"""Following a run folder while runs go on: the stream of new event files, and what is known of the run that goes on."""
