"""What the cloud does with messages of devices, without a broker or a disk."""
