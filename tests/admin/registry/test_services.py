"""Services, with those who provide them and those who are subscribed to them."""

from __future__ import annotations

from tests.admin.scene import Admin


def test_a_service_has_subscribers_by_its_name_and_by_patterns() -> None:
    admin = Admin()
    wanted = {"by name": ["hall/tv", "#"], "by pattern": ["cellar", "hall/#", "+/tv"], "others": ["cellar/#"]}
    members = {}
    for routing_id, services in wanted.items():
        member = admin.member(services=services, **{"routing-id": routing_id})
        members[member.routing_id] = routing_id
    shown = admin.client().ask("/api/v1/services/hall%2Ftv").json
    found = {members[each["routing_id"]]: each["pattern"] for each in shown["subscribers"]}
    assert set(found) == {"by name", "by pattern"}
    assert found["by name"] is None
    assert found["by pattern"] in ("hall/#", "+/tv")
    assert shown["subscribers_count"] == 2
    assert shown["formats"] == {"providers": [], "subscribers": ["objects"]}
