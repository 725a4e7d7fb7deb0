"""Plans that follow a stream: observe a micro-batch, make the next plan, read it in the next batch."""
