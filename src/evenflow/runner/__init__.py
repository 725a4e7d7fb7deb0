"""What `evenflow run` does: a source, balanced workers, an app, a sink."""
