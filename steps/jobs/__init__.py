"""One run of one group: what is asked, what comes back, when it stands still or is tried again."""
