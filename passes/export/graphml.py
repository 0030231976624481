"""The graph as GraphML, which Gephi, yEd, Cytoscape and networkx read: nodes with operation, shapes and formats.

GraphML: Brandes et al. 2002, http://graphml.graphdrawing.org.
"""

from __future__ import annotations

import io
from pathlib import Path

from espalier.model.document.project import Project
from espalier.model.files import write_bytes


def write_graphml(project: Project, path: Path) -> list[Path]:
    """Write a .graphml file; raises FileError."""
    import networkx as nx

    path = path if path.suffix == ".graphml" else path.with_name(f"{path.name}.graphml")
    text = io.BytesIO()
    nx.write_graphml(project.graph.to_networkx(), text, named_key_ids=True)
    write_bytes(path, text.getvalue())
    return [path]
