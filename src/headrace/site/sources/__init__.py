"""The sources of a site: which are captured, by which process, and what is wrong with them."""
