"""Why an answer is what it is: the words of a picture or a text, where they are seen, and a score's sum."""
