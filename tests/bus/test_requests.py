"""Who asked what."""

from bussrv.bus.requests import MAX_AGE, MAX_REQUESTS, OpenRequests


class Seconds:
    now = 0.0

    def __call__(self):
        return self.now


def test_a_request_is_remembered_and_may_have_several_replies():
    requests = OpenRequests(Seconds())
    requests.remember("r1", "asker")
    assert requests.requester("r1") == requests.requester("r1") == "asker"
    assert requests.requester("r2") is None


def test_the_newer_request_of_an_id_counts():
    seconds = Seconds()
    requests = OpenRequests(seconds, max_requests=2, max_age=10)
    requests.remember("r1", "first")
    requests.remember("r2", "first")
    seconds.now = 6
    requests.remember("r1", "second")
    assert requests.requester("r1") == "second"
    requests.remember("r3", "third")
    assert requests.requester("r2") is None
    seconds.now = 16
    assert requests.requester("r1") == "second"


def test_requests_are_forgotten_when_they_are_old():
    seconds = Seconds()
    requests = OpenRequests(seconds)
    requests.remember("r1", "asker")
    seconds.now = MAX_AGE
    assert requests.requester("r1") == "asker"
    seconds.now += 0.001
    assert requests.requester("r1") is None


def test_the_oldest_are_forgotten_when_there_are_too_many():
    requests = OpenRequests(Seconds())
    for number in range(MAX_REQUESTS + 1):
        requests.remember(number, "asker")
    assert requests.requester(0) is None
    assert requests.requester(1) == requests.requester(MAX_REQUESTS) == "asker"
    assert len(requests._asked) == MAX_REQUESTS
