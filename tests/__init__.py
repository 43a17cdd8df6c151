"""Tests; run with pytest from the top of the checkout."""
