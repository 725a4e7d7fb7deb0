"""Names of Java classes that are looked up once.

PySpark asks the JVM for a class wherever it uses one, and the JVM looks for it in a few hundred jars. In
tests of small frames that is a tenth of the JVM's work.
"""

from __future__ import annotations

from typing import Any

from py4j.java_gateway import JavaClass, JavaPackage, JVMView  # type: ignore[import-untyped]


def remember_java_names() -> None:
    """Let packages, and the view of all packages, keep what was found in them."""
    for kind in (JVMView, JavaPackage):
        kind.__getattr__ = _remembering(kind.__getattr__)


def _remembering(look_up: Any) -> Any:
    def get(self: Any, name: str) -> Any:
        found = look_up(self, name)
        if isinstance(found, JavaClass | JavaPackage):
            self.__dict__[name] = found
        return found

    return get
