"""Attacks and other trouble in the journals of servers that never ran: what is said of them is what the journal has."""

import json
from collections import Counter

import pytest

from bussrv import events as ev
from bussrv.addresses import host_of
from bussrv.cli.main import main
from bussrv.journal.reading import read_journal
from bussrv.journal.verify import verify
from bussrv.registry.state.state import RegistryState
from bussrv.synth.attacker import Attack
from bussrv.synth.attacks import PER_ATTACK
from bussrv.synth.journal import write_journal
from bussrv.synth.scripts import GUESSES_PER_CONNECTION, KINDS, MOST_CONNECTS, STORMERS
from bussrv.synth.world import HOUR, MINUTE, SECOND, World
from tests.audit.oracles import consistency as oracle
from tests.size import FULL

EVENTS = 15_000 if FULL else 8_000


@pytest.fixture(scope="module")
def attacked(tmp_path_factory):
    """A journal with an attack of every kind, and what they were, by kind."""
    directory = tmp_path_factory.mktemp("attacked")
    made = write_journal(directory, events=EVENTS, attacks=tuple(KINDS))
    return directory, [*read_journal(directory)], {each.kind: each for each in made}


def records_from(records, address):
    return [each for each in records if each.event.peer and host_of(each.event.peer) == address]


def moments_of(records, kind, address):
    return [each.time for each in records_from(records, address) if isinstance(each.event, kind)]


def test_the_journal_is_whole_and_contradicts_itself_nowhere(attacked):
    directory, records, _ = attacked
    assert verify(directory).faults == []
    state = RegistryState()
    for each in records:
        event = each.event
        if isinstance(event, ev.SessionClosed | ev.SubscriptionAdded | ev.SubscriptionRenewed | ev.SubscriptionRemoved):
            assert event.session in state.sessions
        elif isinstance(event, ev.ServiceRegistered):
            assert event.service not in state.provided_by(event.session)
        elif isinstance(event, ev.ServiceUnregistered):
            assert event.service in state.provided_by(event.session)
        elif isinstance(event, ev.SessionIdentified):
            assert state.owner(event.routing_id) in (None, event.session)
        state.apply(event, each.time)
    assert [each.seq for each in records] == [*range(1, len(records) + 1)]
    assert [each.time for each in records] == sorted(each.time for each in records)


def test_nothing_is_found_in_it_that_no_sound_server_writes(attacked):
    placed = [oracle.Placed(each, 1) for each in attacked[1]]
    assert oracle.findings(placed) == []
    # It would find something.
    assert oracle.findings(placed[:100] + placed[90:]) != []


def test_each_kind_is_there_and_over(attacked):
    _, _, attacks = attacked
    assert attacks.keys() == KINDS.keys()
    assert all(each.complete for each in attacks.values())


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_said_of_an_attack_is_in_the_journal(attacked, kind):
    _, records, attacks = attacked
    attack = attacks[kind]
    mine = records_from(records, attack.address)
    assert attack.events == Counter(ev.event_name(each.event) for each in mine)
    assert (attack.begin, attack.end) == (mine[0].time, mine[-1].time)
    assert attack.suppressed == sum(each.event.suppressed or 0 for each in mine)
    assert attack.events["session.opened"] == attack.events["session.closed"]
    assert attack.other is None or records_from(records, attack.other)


def test_passwords_are_guessed_faster_than_is_written_down(attacked):
    attack = attacked[2]["password-guessing"]
    assert attack.events["auth.failed"] + attack.suppressed == attack.tried
    assert attack.suppressed > 10
    assert attack.tried <= GUESSES_PER_CONNECTION * attack.events["session.opened"]


def test_a_flood_hits_the_limit(attacked):
    _, records, attacks = attacked
    attack = attacks["connect-flood"]
    refused = [each.event for each in records_from(records, attack.address) if isinstance(each.event, ev.LimitReached)]
    assert {(each.limit, each.value, each.reason) for each in refused} == {
        ("max-connects", MOST_CONNECTS, "too-many-connects")
    }
    assert attack.events["session.opened"] + len(refused) + attack.suppressed == attack.tried
    opened = moments_of(records, ev.SessionOpened, attack.address)
    # A burst, and as many in the second behind it.
    assert all(sum(0 <= each - first < SECOND for each in opened) <= 2 * MOST_CONNECTS for first in opened)


@pytest.mark.parametrize("kind", ["storm-after-crash", "storm-after-link-loss"])
def test_in_a_storm_the_clients_of_one_machine_come_back_at_once(attacked, kind):
    _, records, attacks = attacked
    attack = attacks[kind]
    opened = moments_of(records, ev.SessionOpened, attack.address)
    before = STORMERS if kind == "storm-after-crash" else 0
    assert len(opened) == attack.tried + before
    assert attack.tried % STORMERS == 0
    assert max(Counter(each // MINUTE for each in opened[before:]).values()) >= 2 * STORMERS


def test_what_the_storms_come_after(attacked):
    _, records, attacks = attacked
    crash, loss = attacks["storm-after-crash"], attacks["storm-after-link-loss"]
    opened = moments_of(records, ev.SessionOpened, crash.address)
    recovered = [each.time for each in records if isinstance(each.event, ev.ServerRecovered)]
    assert any(opened[STORMERS - 1] < each <= opened[STORMERS] for each in recovered)
    (lost,) = moments_of(records, ev.LinkDown, loss.other)
    assert lost <= loss.begin <= lost + SECOND


def test_a_service_flaps(attacked):
    _, records, attacks = attacked
    attack = attacks["flapping-service"]
    steps = [each.event for each in records if each.event.service == attack.service]
    registered = [isinstance(each, ev.ServiceRegistered) for each in steps]
    assert registered == [True, False] * attack.tried
    assert attack.tried >= 20
    assert {each.reason for each in steps} >= {None, "connection-lost"}


def test_a_routing_id_is_stolen(attacked):
    _, records, attacks = attacked
    attack = attacks["identity-theft"]
    holders = [
        host_of(each.event.peer)
        for each in records
        if isinstance(each.event, ev.SessionIdentified) and each.event.routing_id == attack.routing_id
    ]
    assert holders == [attack.other, attack.address]
    asked = moments_of(records, ev.SessionIdentified, attack.address)
    lost = moments_of(records, ev.SessionClosed, attack.other)[0]
    # It began when the one that it belongs to was there still.
    assert attack.begin < lost < asked[-1]
    assert len(asked) == attack.tried + 1
    assert len(moments_of(records, ev.SessionOpened, attack.other)) == 2


def test_what_nobody_provides_and_what_nobody_wants(attacked):
    _, records, attacks = attacked
    ghost, spare = attacks["unprovided-service"], attacks["unwanted-service"]
    about = {
        name: Counter(type(each.event) for each in records if each.event.service == name)
        for name in (ghost.service, spare.service)
    }
    added, renewed = about[ghost.service][ev.SubscriptionAdded], about[ghost.service][ev.SubscriptionRenewed]
    assert added + renewed == ghost.tried
    assert about[ghost.service].keys() == {ev.SubscriptionAdded, ev.SubscriptionRenewed, ev.SubscriptionRemoved}
    reasons = {each.event.reason for each in records_from(records, ghost.address)}
    assert reasons == {None, "lease-expired"}
    assert about[spare.service] == {ev.ServiceRegistered: 1, ev.ServiceUnregistered: 1}


def days(seed, events=4_000, **options):
    found = []
    world = World("hall", seed, 0, found.extend, **options)
    return found, world.run(events)


def test_the_same_seed_gives_the_same_attacks():
    one, again, other = (days(seed, attacks=tuple(KINDS)) for seed in (5, 5, 6))
    assert one == again
    assert one[1] != other[1]


def test_each_kind_once_among_so_many_events(monkeypatch):
    monkeypatch.setattr("bussrv.synth.attacks.PER_ATTACK", 1_000)
    _, made = days(0, events=4_000, attacks=("unwanted-service",))
    assert len(made) == 4
    assert len({each.address for each in made}) == 4
    assert PER_ATTACK >= 10_000


def test_attackers_outlive_a_server_that_crashes_all_the_time():
    found, made = days(0, events=12_000, attacks=tuple(KINDS), uptime=2 * MINUTE)
    assert sum(isinstance(each.event, ev.ServerRecovered) for each in found) > 20
    assert sum(each.complete for each in made) >= len(KINDS) - 1
    crashed = {each.event.reason for each in found if records_from([each], made[0].address)}
    assert crashed <= {
        None,
        "server-crashed",
        "client-closed",
        "connection-lost",
        "lease-expired",
        "bad-credentials",
        "authentication-failed",
        "too-many-connects",
        "subscribe-timeout",
        "replaced",
    }


def test_an_attack_that_the_end_comes_too_early_for(monkeypatch):
    """What there was of it is said, and that it is not all."""
    monkeypatch.setitem(KINDS, "endless", endless)
    found, (attack,) = days(0, attacks=("endless",))
    assert not attack.complete
    assert attack.events == {"session.opened": 1, "session.closed": 1}
    assert attack.end == found[-1].time


def endless(attacker):
    attacker.connect("spp")
    while True:
        yield HOUR


def test_the_command(tmp_path, capsys):
    directory = str(tmp_path / "journal")
    said = ["journal", "synth", directory, "--events", "3000", "--faults", "time-backwards"]
    assert main([*said, "--attacks", "flapping-service,unwanted-service"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [each["kind"] for each in lines[:-2]] == ["time-backwards"] * 3
    assert {each["kind"] for each in lines[-2:]} == {"flapping-service", "unwanted-service"}
    assert lines[-1].keys() <= set(Attack.__struct_fields__)
    assert main([*said, "--attacks", "rust"]) == 2
    assert "there is no attack 'rust'; there are password-guessing, " in capsys.readouterr().err
