"""Attacks on the project, to see whether it keeps its promises (docs/campaign.md)."""
