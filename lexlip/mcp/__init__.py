"""Photos as tools of an agent, by the Model Context Protocol over stdin and stdout."""
