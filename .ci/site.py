"""Links of the site's pages to files of the repository lead to the repository: they are no pages."""

import re

_OUT = re.compile(r"\]\(\.\./([^)]+)\)")


def on_page_markdown(markdown, config, **_):
    """Called by mkdocs for each page."""
    return _OUT.sub(rf"]({config['repo_url']}/blob/main/\1)", markdown)
