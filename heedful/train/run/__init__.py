"""What a start of training does: decided before anything is made, then the text, the steps, the average."""
