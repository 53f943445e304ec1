"""What is refused once the input is listed, before anything is converted."""
