"""Which web pages may connect. A browser lets any page connect to this machine, and sends the origin of the page."""

from collections.abc import Collection

from mqlab.broker.server.http.responses import is_fixed


def allows(origin: str, host: str, allowed: Collection[str], *, tls: bool) -> bool:
    """`host` is the Host header of the client; `tls`: a certificate has proven it.

    Some clients that are not browsers send the broker itself as origin. The broker serves no pages, so that is safe,
    unless an attacker has pointed a name to this machine after a page was loaded (DNS rebinding). That is impossible
    with an IP address, and with a name that a certificate proves.
    """
    origin, host = origin.lower(), host.lower()
    if origin in allowed:
        return True
    return origin in (f"http://{host}", f"https://{host}") and (tls or is_fixed(host))
