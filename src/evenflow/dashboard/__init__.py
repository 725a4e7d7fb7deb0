"""``evenflow dashboard``: the balance of running queries in a browser, live and saved as one file."""
