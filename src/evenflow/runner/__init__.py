"""The implementation of `evenflow run`: a source, balanced workers, an app, a sink."""
