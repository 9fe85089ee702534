"""What must hold: stages, published and derived figures, bars of entries and of sites."""
