"""The Java process of the Spark session: how it gets its classes without the time that loading them takes."""
