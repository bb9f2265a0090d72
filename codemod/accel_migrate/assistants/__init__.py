"""Where coding assistants look for skills and rules, and what is put there and taken away again."""
