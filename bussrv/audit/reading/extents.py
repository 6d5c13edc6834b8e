"""One row a segment: its extent, and whether all of its lines are sound.

Sound segments are recognized without sorting:

- Successive lines have successive positions. In a sound segment, the numbers of records grow with the positions.
- Each line has its hash, and the hash that it states for the line before it. In a sound chain each hash is there twice,
  except at both ends. So the *exclusive or* of all others is 0.

These hashes have 64 bits. They find every accident, but an attacker can make changes fit. Digests and seals find those.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from msgspec import Struct
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows it by

from bussrv.audit.reading.load import HEADER, PART, RECORD
from bussrv.journal.segment import Counts


class Block(Struct, frozen=True):
    """A part of a segment that was read at once; most segments are one.

    :ivar server: a hash of the id of the server; ``None`` if lines name several.
    :ivar chain: what is left of the hashes of its lines; 0 in a sound chain.
    :ivar first_back: what its first line says of the line before it, and ``last_link`` what its last line is.
    :ivar first_moment, last_moment: UTC microseconds since 1970.
    :ivar lowest: the least difference between the number of a record and its position, and ``highest`` the greatest.
    :ivar lowest_part, highest_part: the same of header and parts, of which the header counts as part 0.
    """

    taken: str
    block: int
    lines: int
    records: int
    problems: int
    headers: int
    parts: int
    announced: int | None
    first_seq: int | None
    last_seq: int | None
    first_moment: int | None
    last_moment: int | None
    server: int | None
    chain: int
    first_back: int
    last_link: int
    lowest: int | None
    highest: int | None
    lowest_part: int | None
    highest_part: int | None


class Extent(Counts, frozen=True, kw_only=True):
    """The sound records of a segment: how many, the first and the last number, the earliest and the latest moment.

    :ivar is_sound: whether all lines are sound, the chain holds, and nothing is missing, repeated or out of order.
    """

    is_sound: bool = False
    first_moment: int | None = None
    last_moment: int | None = None


def blocks_of(lines: DataFrame) -> dict[str, list[Block]]:
    """The blocks of each segment, in order.

    :param lines: what :func:`bussrv.audit.reading.load.lines_of` returns.
    """
    is_sound = F.col("is_sound")
    is_record, is_header, is_part = (is_sound & (F.col("kind") == kind) for kind in (RECORD, HEADER, PART))
    seq, position = F.when(is_record, F.col("seq")), F.col("position")
    record_position = F.when(is_record, position)
    server, moment = F.when(is_record | is_header, F.xxhash64("server")), F.when(is_record, F.unix_micros("moment"))
    offset, part_offset = seq - position, F.when(is_header, 0).when(is_part, F.col("part")) - position
    rows = (
        lines.groupBy("taken", "block")
        .agg(
            F.count("*").alias("lines"),
            F.count_if(is_record).alias("records"),
            F.count_if(~is_sound).alias("problems"),
            F.count_if(is_header).alias("headers"),
            F.count_if(is_part).alias("parts"),
            F.max(F.when(is_header, F.col("parts"))).alias("announced"),
            F.min_by(seq, record_position).alias("first_seq"),
            F.max_by(seq, record_position).alias("last_seq"),
            F.min(moment).alias("first_moment"),
            F.max(moment).alias("last_moment"),
            F.min(server).alias("one"),
            F.max(server).alias("other"),
            F.bit_xor(F.col("link").bitwiseXOR(F.col("back"))).alias("chain"),
            F.min_by("back", "position").alias("first_back"),
            F.max_by("link", "position").alias("last_link"),
            F.min(offset).alias("lowest"),
            F.max(offset).alias("highest"),
            F.min(part_offset).alias("lowest_part"),
            F.max(part_offset).alias("highest_part"),
        )
        .withColumn("chain", F.col("chain").bitwiseXOR(F.col("first_back").bitwiseXOR(F.col("last_link"))))
        .withColumn("server", F.when(F.col("one") == F.col("other"), F.col("one")))
        .select(*Block.__struct_fields__)
        .collect()
    )
    found: dict[str, list[Block]] = {}
    for block in sorted((Block(*row) for row in rows), key=lambda each: each.block):
        found.setdefault(block.taken, []).append(block)
    return found


def extents_of(blocks: Mapping[str, Sequence[Block]], numbers: Mapping[str, int]) -> dict[str, Extent]:
    """The extent of each segment, by its name in the snapshot.

    :param blocks: by the name of the segment, too.
    :param numbers: the number in the name of each segment.
    """
    return {taken: _extent(number, blocks.get(taken, ())) for taken, number in numbers.items()}


def _extent(number: int, blocks: Sequence[Block]) -> Extent:
    return Extent(
        is_sound=_is_sound(number, blocks),
        records=sum(block.records for block in blocks),
        first_seq=next((block.first_seq for block in blocks if block.records), None),
        last_seq=next((block.last_seq for block in reversed(blocks) if block.records), None),
        first_moment=_least(block.first_moment for block in blocks),
        last_moment=_greatest(block.last_moment for block in blocks),
    )


def _least(values: Iterable[int | None]) -> int | None:
    return min((each for each in values if each is not None), default=None)


def _greatest(values: Iterable[int | None]) -> int | None:
    return max((each for each in values if each is not None), default=None)


def _is_sound(number: int, blocks: Sequence[Block]) -> bool:
    if not blocks or not all(_is_sound_in_itself(block) for block in blocks):
        return False
    # All records are of the server that the header names.
    if len({block.server for block in blocks}) != 1:
        return False
    first = blocks[0]
    if first.headers != 1 or first.lowest_part != first.highest_part:
        return False
    if first.announced is None or sum(block.parts for block in blocks) != first.announced:
        return False
    if first.records and first.lowest != number - 1 - first.announced + (first.lowest_part or 0):
        return False
    seq = number
    for block in blocks:
        if block.records:
            if block.first_seq != seq:
                return False
            seq += block.records
    return all(other.first_back == one.last_link for one, other in pairwise(blocks))


def _is_sound_in_itself(block: Block) -> bool:
    if block.problems or block.chain or block.lowest != block.highest:
        return False
    return block.records == 0 or block.server is not None
