"""Rows on the device of the logits: the table mirrored there, rows gathered by number and applied in place."""

from constrained.device.apply import apply_rows
from constrained.device.batch import BatchRows
from constrained.device.mirror import TableMirror

__all__ = ["BatchRows", "TableMirror", "apply_rows"]
