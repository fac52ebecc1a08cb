"""What this machine has and shows: cores, memory, devices, processes, progress, files for results."""
