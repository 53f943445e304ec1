"""How a pipeline becomes a job and who follows it, a class for each runner; what a build is and shows is not here."""
