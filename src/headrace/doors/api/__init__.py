"""HTTP for people and programs: what the commands say, of a service that runs."""
