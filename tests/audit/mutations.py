"""Every kind of tampering with a journal that the audit is tested with."""

from __future__ import annotations

from tests.audit import mutations_lines, mutations_manifest, mutations_segments
from tests.size import sample

MUTATIONS = (*mutations_lines.MUTATIONS, *mutations_segments.MUTATIONS, *mutations_manifest.MUTATIONS)

TRIED = sample(MUTATIONS)
"""Those that are audited together; the judge of evidence has tests of its own."""
