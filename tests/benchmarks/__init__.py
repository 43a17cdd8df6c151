"""Speed of the commands, compared with an earlier revision of the tool."""
