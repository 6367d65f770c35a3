"""Sans-IO codecs: bytes <-> frames, and messages <-> the payload of a frame.

Used by `client`, `drivers` and `broker` alike.
Nothing here opens a socket, waits, or knows what a frame means to a broker.
"""
