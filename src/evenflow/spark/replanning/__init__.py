"""Plans that follow a stream: observe a micro-batch, make a new plan, use it in the next batch."""
