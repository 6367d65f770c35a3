"""Sans-IO codecs: bytes <-> frames, and messages <-> the payload of a frame.

`client`, `drivers` and `broker` use them. A codec opens no socket, does not wait, and does not know what a broker does
with a frame.
"""
