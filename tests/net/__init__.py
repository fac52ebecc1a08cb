"""What outside programs rely on, recorded once and compared ever since."""
