"""What a user sees while runs go on, and where the program writes."""
