"""Topology files: the catalog by name, or any file by path."""

from pathlib import Path

from pydantic import ValidationError

from topologies.builders import clos
from topologies.model import Fabric, TopologyError
from topologies.problems import first_problem
from topologies.schema import Topology
from topologies.strict_yaml import Document, InputError, Place, parse

CATALOG = Path(__file__).parent / "catalog"


def catalog_names() -> list[str]:
    return sorted(path.stem for path in CATALOG.glob("*.yaml"))


def read_text(path: Path, shown: str) -> str:
    """The text of a file, or an InputError that says why not."""
    try:
        return path.read_bytes().decode("utf-8")
    except UnicodeDecodeError:
        raise InputError("the file is not UTF-8 text", Place(shown)) from None
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise InputError(f"cannot read the file: {reason}", Place(shown)) from None


def read_catalog(name: str) -> Document:
    """The catalog file of that name, not yet validated."""
    if name not in catalog_names():
        raise InputError(
            f"no topology {name!r} in the catalog: it has {', '.join(catalog_names())}"
        )
    shown = f"topologies/catalog/{name}.yaml"
    return parse(read_text(CATALOG / f"{name}.yaml", shown), shown)


def load(name: str) -> Fabric:
    """The fabric of that catalog name.  Raises InputError."""
    document = read_catalog(name)
    try:
        return clos(Topology.model_validate(document.data).spec())
    except ValidationError as error:
        raise first_problem(error, document, Topology) from None
    except TopologyError as error:
        raise InputError(str(error), document.place(())) from None
