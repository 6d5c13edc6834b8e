"""Every kind of tampering with a journal that the audit is tested with."""

from __future__ import annotations

from tests.audit import mutations_lines, mutations_manifest, mutations_segments

MUTATIONS = (*mutations_lines.MUTATIONS, *mutations_segments.MUTATIONS, *mutations_manifest.MUTATIONS)
