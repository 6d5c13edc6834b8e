import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from bussrv.transparency.tree import EMPTY_ROOT, Edge, Tree, is_consistent, is_included, leaf_hash, node_hash

# The leaves and roots of the tests of Certificate Transparency, which RFC 6962 describes.
LEAVES = [
    *(b"", b"\x00", b"\x10", b"\x20\x21", b"\x30\x31", b"\x40\x41\x42\x43", b"\x50\x51\x52\x53\x54\x55\x56\x57"),
    b"\x60\x61\x62\x63\x64\x65\x66\x67\x68\x69\x6a\x6b\x6c\x6d\x6e\x6f",
]
ROOTS = [
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]
CONSISTENCY = {
    (1, 1): [],
    (1, 8): [
        "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7",
        "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
        "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4",
    ],
    (6, 8): [
        "0ebc5d3437fbe2db158b9f126a1d118e308181031d0a949f8dededebc558ef6a",
        "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
        "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    ],
    (2, 5): [
        "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
        "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
    ],
}


def tree_of(leaves):
    hashes = list(map(leaf_hash, leaves))
    return Tree(len(hashes), lambda begin, end: b"".join(hashes[begin:end]))


def edge_of(leaves):
    edge = Edge()
    edge.extend([*map(leaf_hash, leaves)])
    return edge


def by_definition(leaves):
    """The root, as section 2.1 of RFC 6962 defines it."""
    if len(leaves) < 2:
        return leaf_hash(leaves[0]) if leaves else EMPTY_ROOT
    middle = 1
    while middle * 2 < len(leaves):
        middle *= 2
    return node_hash(by_definition(leaves[:middle]), by_definition(leaves[middle:]))


@pytest.mark.parametrize("size", range(9))
def test_roots_are_those_of_certificate_transparency(size):
    assert edge_of(LEAVES[:size]).root().hex() == ROOTS[size]
    assert tree_of(LEAVES).root(size).hex() == ROOTS[size]


@pytest.mark.parametrize(("sizes", "proof"), CONSISTENCY.items(), ids=str)
def test_consistency_is_that_of_certificate_transparency(sizes, proof):
    assert [each.hex() for each in tree_of(LEAVES).consistency(*sizes)] == proof


def test_inclusion_is_that_of_certificate_transparency():
    assert [each.hex() for each in tree_of(LEAVES).inclusion(5)] == [
        "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
        "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
        "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    ]


@given(st.lists(st.binary(max_size=3), max_size=70), st.data())
def test_an_edge_grows_as_the_definition_says(leaves, data):
    edge = edge_of(leaves)
    size = data.draw(st.integers(0, len(leaves)))
    assert edge.root() == by_definition(leaves)
    # It goes on from any size.
    resumed = Edge(size, tree_of(leaves).edge(size).hashes)
    before = resumed.copy()
    resumed.extend([*map(leaf_hash, leaves[size:])])
    assert resumed == edge
    assert before == edge_of(leaves[:size])


# A tree that is large enough for subtrees that are kept.
LARGE = [str(number).encode() for number in range(1111)]
TREE = tree_of(LARGE)


@st.composite
def sized_trees(draw):
    return draw(st.one_of(st.integers(1, 20), st.integers(1, len(LARGE))))


@given(sized_trees(), st.data())
def test_every_inclusion_proof_verifies_and_no_other(size, data):
    index = data.draw(st.integers(0, size - 1))
    leaf, root, proof = leaf_hash(LARGE[index]), TREE.root(size), TREE.inclusion(index, size)
    assert root == edge_of(LARGE[:size]).root()
    assert is_included(leaf, index, size, proof, root)
    other = data.draw(st.integers(0, size).filter(lambda each: each != index))
    assert not is_included(leaf, other, size, proof, root)
    assert not is_included(changed(leaf, data), index, size, proof, root)
    assert not is_included(leaf, index, size, proof, changed(root, data))
    for wrong in spoilt(proof, data):
        assert not is_included(leaf, index, size, wrong, root)


@given(sized_trees(), st.data())
def test_every_consistency_proof_verifies_and_no_other(size, data):
    old = data.draw(st.integers(0, size))
    old_root, root, proof = TREE.root(old), TREE.root(size), TREE.consistency(old, size)
    assert is_consistent(old, old_root, size, root, proof)
    assert not is_consistent(old, changed(old_root, data), size, root, proof)
    assert not is_consistent(size + 1, root, size, root, proof)
    for wrong in spoilt(proof, data):
        assert not is_consistent(old, old_root, size, root, wrong)
    # Nothing is claimed of what follows an empty tree.
    assert old == 0 or not is_consistent(old, old_root, size, changed(root, data), proof)


@given(sized_trees(), st.data())
def test_no_proof_leads_from_another_history(size, data):
    old = data.draw(st.integers(1, size))
    place = data.draw(st.integers(0, old - 1))
    other = tree_of([*LARGE[:place], b"x", *LARGE[place + 1 : size]])
    proofs = (TREE.consistency(old, size), other.consistency(old, size))
    assert not any(is_consistent(old, TREE.root(old), size, other.root(), each) for each in proofs)


def changed(text, data):
    at, bit = data.draw(st.integers(0, len(text) - 1)), data.draw(st.integers(0, 7))
    return text[:at] + bytes([text[at] ^ 1 << bit]) + text[at + 1 :]


def spoilt(proof, data):
    """The proof with a hash more, a hash less, and a hash that is another one."""
    at = data.draw(st.integers(0, len(proof)))
    yield [*proof[:at], bytes(32), *proof[at:]]
    if proof:
        at = min(at, len(proof) - 1)
        yield [*proof[:at], *proof[at + 1 :]]
        yield [*proof[:at], changed(proof[at], data), *proof[at + 1 :]]


@given(st.integers(0, 40), st.integers(-2, 60), st.integers(-2, 60), st.lists(st.binary(min_size=32, max_size=32)))
def test_checks_of_nonsense_end(size, old, index, proof):
    assume(index not in range(size) or old not in range(size))
    assert not is_included(bytes(32), index, size, proof, b"")
    assert not is_consistent(old, b"", size, b"", proof) or (old == size and not proof)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Edge(3, [bytes(32)]),
        lambda: Edge(-1),
        lambda: Edge(1, [b"short"]),
        lambda: TREE.root(len(LARGE) + 1),
        lambda: TREE.inclusion(5, 5),
        lambda: TREE.consistency(6, 5),
        lambda: Tree(5, lambda begin, end: b"").root(),
    ],
)
def test_what_cannot_be_is_refused(wrong):
    with pytest.raises(ValueError, match="leaves"):
        wrong()
