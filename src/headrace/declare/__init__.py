"""Project text and SQL become a Catalogue: the only place where text is read, checked and given a location."""
