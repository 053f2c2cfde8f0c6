"""The project's addresses, as the metadata of a built package names them.

They are those of the repository that builds it: a clone elsewhere names none.
"""

import os

from hatchling.metadata.plugin.interface import MetadataHookInterface

PAGES = {
    "Source": "",
    "Documentation": "/blob/main/README.md",
    "Changelog": "/blob/main/docs/changelog.md",
    "Issues": "/issues",
    "Security": "/security/policy",
}


class Addresses(MetadataHookInterface):
    """Name the pages of the repository of a workflow."""

    def update(self, metadata: dict) -> None:
        repository = os.environ.get("GITHUB_REPOSITORY")
        if not repository:
            return
        home = f"https://github.com/{repository}"
        metadata["urls"] = {name: home + page for name, page in PAGES.items()}
