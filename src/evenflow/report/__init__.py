"""What people look at: tables."""
