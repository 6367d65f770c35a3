"""Whose web pages may connect. A browser lets any page reach this machine, and says whose it is: its origin."""

from collections.abc import Collection

from mqlab.broker.server.http.responses import is_certain


def allows(origin: str, host: str, allowed: Collection[str], *, tls: bool) -> bool:
    """`host` is what the client calls this broker, `tls` whether that was proven to it by a certificate.

    Some clients that are no browsers name the broker itself. That is nobody's page, since the broker has none; unless
    somebody pointed a name of his own here after his page was loaded. A number cannot be pointed elsewhere, and a name
    needs a certificate for that.
    """
    origin, host = origin.lower(), host.lower()
    if origin in allowed:
        return True
    return origin in (f"http://{host}", f"https://{host}") and (tls or is_certain(host))
