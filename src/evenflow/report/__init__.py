"""Output for people: tables, figures and HTML pages."""
