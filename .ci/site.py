"""Links of the site's pages to files of the repository lead to the repository: they are no pages."""


def on_page_markdown(markdown, page, config, **_):
    """Called by mkdocs for each page."""
    out = "../" * (page.file.src_uri.count("/") + 1)
    return markdown.replace(f"]({out}", f"]({config['repo_url']}/blob/main/")
