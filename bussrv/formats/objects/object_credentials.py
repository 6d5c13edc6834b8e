"""Credentials in objects: ``user`` with ``secret``, or ``token``, in an object by which a client becomes a member.

Secrets are taken out of the object as it comes, before anything else looks at it. So none can be routed, journaled or
quoted in an error.
"""

from __future__ import annotations

import msgspec

from bussrv.bus.interest.vocabulary import JOINING
from bussrv.errors import Refused
from bussrv.policy.logins.credentials import Credentials, Password, Token
from bussrv.wire.objects import BusObject, decode_raw, encode_json

SECRETS = ("secret", "token")
"""The attributes that nobody else may see."""


class ObjectCredentials:
    """The credentials that came with an object.

    :param obj: its own are taken out of it.
    :ivar obj: the object without them.
    """

    def __init__(self, obj: BusObject) -> None:
        self.obj = obj
        self._raw = {}
        if obj.head.event is None or obj.head.event.lower() not in JOINING:
            return
        fields = decode_raw(obj.metadata)
        self._raw = {key: fields.pop(key) for key in SECRETS if key in fields}
        if self._raw:
            self.obj = BusObject(encode_json(fields), obj.head, obj.payload)

    @property
    def is_given(self) -> bool:
        """Whether there are any, of whatever form."""
        return bool(self._raw)

    def credentials(self) -> Credentials | None:
        """The credentials; ``None``: there are none.

        :raises Refused: ``bad-subscription``: they are none of a kind that there is. The message quotes nothing.
        """
        given = {key: _text(key, raw) for key, raw in self._raw.items()}
        if not given:
            return None
        if len(given) > 1:
            raise Refused("bad-subscription", "there is either a secret or a token, not both")
        if "token" in given:
            return Token(given["token"])
        user = self.obj.fields().get("user")
        if not isinstance(user, str):
            raise Refused("bad-subscription", "a secret comes with a user, a string")
        return Password(user, given["secret"].encode("utf-8", "surrogatepass"))


def _text(key: str, raw: msgspec.Raw) -> str:
    try:
        return msgspec.json.decode(raw, type=str)
    except msgspec.MsgspecError:
        raise Refused("bad-subscription", f"{key} is a string") from None
