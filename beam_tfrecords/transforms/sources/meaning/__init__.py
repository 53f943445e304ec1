"""What an input means: which of its fields a build uses and stores. Readers declare, this room compares."""
