"""Shared by the commands of `mqlab broker`: connecting to a broker, its settings as options, safe output."""
