"""Other search engines beside this project's; for a clone of the repository, not in the package."""
