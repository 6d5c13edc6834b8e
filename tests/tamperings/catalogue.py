"""The catalogue: every kind of tampering that a journal is tested with, by its name."""

from __future__ import annotations

from tests.tamperings import of_lines, of_manifests, of_segments
from tests.tamperings.kinds import Kind

MATRIX = [*of_lines.KINDS, *of_segments.KINDS, *of_manifests.KINDS]
"""Those of :mod:`tests.tamperings.matrix`."""

KINDS: dict[str, Kind] = {
    each.name: each for each in [*MATRIX, *of_lines.OTHERS, *of_segments.OTHERS, *of_manifests.OTHERS]
}
