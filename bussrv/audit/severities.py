"""How severe findings are. No Spark here."""

from __future__ import annotations

SEVERITIES = ("error", "warning", "notice")
"""From worst to harmless. Notices alone leave a journal clean."""
