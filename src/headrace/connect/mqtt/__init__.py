"""The broker that devices talk to, and the cloud's side of their messages."""
