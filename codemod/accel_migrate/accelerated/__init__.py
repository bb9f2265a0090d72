"""Scripts that are accelerated already: what a migration left to do by hand is still found in them."""
