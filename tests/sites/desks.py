"""Two sites that talk by hand: what one says, the other hears when the test lets it."""

from tacit.sites.message import Operation

from .cases import MIX, ONE, value

FIRST = Operation(0, MIX, 0)


def begun(*desks, round_=0):
    for desk in desks:
        assert desk.post.begin(round_) == round_
    return desks


def says(one, other, x, round_=0):
    """One says a number to the other: the bytes that leave."""
    one.said.clear()
    one.post.send(Operation(round_, MIX, 0), {other.name: value(x)})
    ((to, data),) = one.said
    assert to == other.name
    return data


def heard(desk, other, round_=0, patience=0.01):
    used, back = desk.post.receive(Operation(round_, MIX, 0), {other.name: ONE} if other else {}, patience)
    return {name: float(tensors["0"]) for name, tensors in used.items()}, [
        (one.receiver, one.round, float(one.tensors["0"])) for one in back
    ]
