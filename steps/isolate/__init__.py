"""The isolate step: finding the bad node of a failed group by pair runs."""
