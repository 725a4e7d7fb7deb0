"""Who is hot? Bounded summaries of a stream of key hashes, each with the guarantee its paper states."""
