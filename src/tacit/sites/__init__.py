"""One organisation, one process: what sites say to each other, who they are, and what they have agreed on."""
