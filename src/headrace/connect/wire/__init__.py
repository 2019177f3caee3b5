"""What sites say to each other, over HTTP."""
