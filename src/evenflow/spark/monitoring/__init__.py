"""What a running query reports: the control directory, busy time, loads."""
