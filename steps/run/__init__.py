"""Running a planned group: fleets that answer for a cluster, recorded or simulated."""
